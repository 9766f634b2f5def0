// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Records of all kinds, such as jobs, API keys and notes of the ledger itself. A record belongs to the whole ledger, to
// an app, or to an app in one environment (a scope).

extension SQLiteLedgerSession {
    private static let columns = """
        SELECT number, kind, owner, bundleId, environment, name, dueAt, entries, payload
        FROM records LEFT JOIN scopes ON scopes.id = owner LEFT JOIN apps ON apps.id = coalesce(scopes.app, -owner)
        """

    func record(_ key: RecordKey) throws -> LedgerRecord? {
        guard let owner = try owner(key.owner) else { return nil }
        return try first(
            Self.columns + " WHERE kind = ? AND owner = ? AND name = ?",
            [.text(key.kind.rawValue), .integer(owner), .text(key.name)]
        ) { try $0.numberedRecord().item }
    }

    func records(_ selection: RecordSelection, after cursor: ScanCursor?, limit: Int) throws -> ScanPage<LedgerRecord> {
        guard let (condition, values) = try condition(selection) else { return ScanPage(items: [], next: nil) }
        func rows(
            _ first: String, _ value: StoredValue, orderedBy order: String, _ limit: Int
        ) throws -> [TableScan<LedgerRecord>.Row] {
            try all(
                "\(Self.columns) WHERE \(first)\(condition) ORDER BY \(order) LIMIT ?",
                [value] + values + [limit.stored]
            ) { try $0.numberedRecord() }
        }
        if let now = selection.dueAt {
            let due = try rows("dueAt <= ?", now.stored, orderedBy: "dueAt", max(0, limit))
            return ScanPage(items: due.map(\.item), next: nil)
        }
        if let names = selection.names {
            let named = try rows("name > ?", .text(names.after), orderedBy: "name", max(0, limit))
            return ScanPage(items: named.map(\.item), next: nil)
        }
        return try TableScan.page(after: cursor, limit: limit) {
            try rows("number > ?", .integer($0), orderedBy: "number", $1)
        }
    }

    /// The conditions on the rows of a selection, as SQL, and their parameters; `nil` if no row can meet them, because
    /// the ledger does not know the owner.
    private func condition(_ selection: RecordSelection) throws -> (String, [StoredValue])? {
        var condition = ""
        var values: [StoredValue] = []
        // The few records with an entry are found by their numbers: `+` keeps SQLite from reading all of their kind.
        let plus = selection.entry == nil ? "" : "+"
        if let names = selection.names {
            condition += " AND name < ?"
            values.append(.text(names.before))
        }
        if let kind = selection.kind {
            condition += " AND \(plus)kind = ?"
            values.append(.text(kind.rawValue))
        }
        if let owner = selection.owner {
            guard let number = try self.owner(owner) else { return nil }
            condition += " AND \(plus)owner = ?"
            values.append(.integer(number))
        }
        if let entry = selection.entry {
            condition += " AND number IN (SELECT record FROM recordEntries WHERE entry = ?)"
            values.append(.text(entry))
        }
        return (condition, values)
    }

    func put(_ record: LedgerRecord) throws {
        let key = record.key
        let number = try first(
            """
            INSERT INTO records (kind, owner, name, dueAt, entries, payload) VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT (kind, owner, name) DO UPDATE
                SET dueAt = excluded.dueAt, entries = excluded.entries, payload = excluded.payload
            RETURNING number
            """,
            [
                .text(key.kind.rawValue), .integer(try addedOwner(key.owner)), .text(key.name), record.dueAt.stored,
                TextList(record.entries).stored, .bytes(record.payload),
            ]
        ) { try $0.next(Int64.self) }
        try run("DELETE FROM recordEntries WHERE record = ?", [number.stored])
        for entry in record.entries {
            try run("INSERT INTO recordEntries (entry, record) VALUES (?, ?)", [.text(entry), number.stored])
        }
    }

    func erase(_ key: RecordKey) throws {
        guard let owner = try owner(key.owner) else { return }
        try run(
            "DELETE FROM records WHERE kind = ? AND owner = ? AND name = ?",
            [.text(key.kind.rawValue), .integer(owner), .text(key.name)])
    }

    /// The number that stands for an owner in the table: 0, a negative app number, or a scope number. `nil` if the
    /// ledger does not know the app or scope.
    func owner(_ owner: RecordOwner) throws -> Int64? {
        switch owner {
        case .ledger: 0
        case .app(let bundleId): try app(bundleId).map { -$0 }
        case .scope(let scope): try self.scope(scope)
        }
    }

    /// The number that stands for an owner in the table. An unknown app or scope is added.
    private func addedOwner(_ owner: RecordOwner) throws -> Int64 {
        switch owner {
        case .ledger: 0
        case .app(let bundleId): -(try addedApp(bundleId))
        case .scope(let scope): try addedScope(scope)
        }
    }
}

extension RowReader {
    /// Reads the number of a record's row and the record.
    fileprivate mutating func numberedRecord() throws -> TableScan<LedgerRecord>.Row {
        let number = try next(Int64.self)
        let kind = RecordKind(rawValue: try next())
        let owner = try recordOwner()
        let key = RecordKey(kind, try next(), of: owner)
        let dueAt = try next(Timestamp?.self)
        let entries = try next(TextList.self).texts
        return (number, LedgerRecord(key, dueAt: dueAt, entries: entries, payload: try next()))
    }
}

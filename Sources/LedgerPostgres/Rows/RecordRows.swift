// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Loads, commits and finds the rows of `records`, which contain a `LedgerRecord` each, of any kind.

extension RecordKey {
    /// The home of the record's row, by which Citus chooses the node. For a record of a scope (an app in an
    /// environment) this is the record's name. If the name is the id of a purchase, the record is thus on the node of
    /// the purchase. All other records have an empty home, and are therefore on the same node.
    var home: String {
        if case .scope = owner { return name }
        return ""
    }
}

extension ScopeNumbers {
    /// The number of an owner: 0 for the ledger as a whole, the number of a scope, or the negative number of an app. An
    /// unknown owner gets a number that no row has.
    func owner(_ owner: RecordOwner) -> Int64 {
        switch owner {
        case .ledger: 0
        case .app(let bundleId): -(apps[bundleId] ?? .max)
        case .scope(let scope): scopes[scope] ?? .max
        }
    }

    /// The values of a record's key columns: kind, owner, home and name.
    fileprivate func key(_ key: RecordKey) -> [PostgresValue] {
        [.text(key.kind.rawValue), .integer(owner(key.owner)), .text(key.home), .text(key.name)]
    }
}

extension LoadPlan {
    mutating func load(_ key: RecordKey) {
        add(
            """
            SELECT version, due_at, entries, payload FROM quittance.records
            WHERE kind = $1 AND owner = $2 AND home = $3 AND name = $4
            """, scopes.key(key)
        ) { rows, loaded in
            loaded.records[key] = try rows.map { row in
                Versioned(version: try row.next(), record: try row.record(key))
            }.first
        }
    }
}

extension PostgresRow {
    fileprivate mutating func record(_ key: RecordKey) throws -> LedgerRecord {
        let dueAt = try next(Timestamp?.self)
        var entries: Set<String> = []
        if isNextNull { _ = nextStored() } else { entries = Set(try texts()) }
        return LedgerRecord(key, dueAt: dueAt, entries: entries, payload: try next())
    }
}

extension CommitPlan {
    private static let table = VersionedTable(
        "records", key: ["kind", "owner", "home", "name"],
        values: [("due_at", "", nil), ("entries", "", nil), ("payload", "", "''::bytea")])

    /// - Parameter readSet: The keys that the decisions of the commit have read, including the keys of all records that
    ///   they write.
    mutating func putRecords(_ changes: LedgerChanges, _ readSet: Set<LedgerKey>) {
        let new = Dictionary(changes.records.map { ($0.key, $0) }) { $1 }
        let keys = readSet.compactMap { if case .record(let key) = $0 { key } else { nil } }
        for key in keys.sorted(by: { $0.sortKey.lexicographicallyPrecedes($1.sortKey) }) {
            let name = scopes.key(key)
            let old = loaded.records[key]
            if let old, new[key] == nil, !changes.erasedRecords.contains(key) {
                add(Self.table.check, name + [.integer(old.version)])
            } else {
                put(new[key].map(values), at: name, in: Self.table, replacing: old?.version)
            }
        }
    }

    private func values(of record: LedgerRecord) -> [PostgresValue] {
        [
            .integer(stamp), record.dueAt.parameter,
            record.entries.isEmpty ? .null : .texts(record.entries.sorted()), .bytes(record.payload),
        ]
    }
}

/// Searches for records.
enum RecordSearch {
    /// - Parameter records: The table of records, or a subquery selecting some of its rows.
    private static func rows(of records: String) -> String {
        """
        SELECT kind, owner, bundle_id, environment, home, name, due_at, entries, payload
        FROM \(records) LEFT JOIN quittance.scopes ON scopes.id = owner
        LEFT JOIN quittance.apps ON apps.id = coalesce(app, -owner)
        """
    }

    /// The records of a selection: due records regardless of the cursor, or records after the cursor. Records due at
    /// the same instant come in any order, see ``ChainSearch/statement(_:after:limit:)``.
    static func statement(
        _ selection: RecordSelection, _ scopes: ScopeNumbers, after cursor: ScanCursor?, limit: Int
    ) -> PostgresStatement {
        if let now = selection.dueAt {
            return statement(
                selection, scopes, where: "due_at <= $1", [now.parameter], orderedBy: "due_at", limit: max(0, limit))
        }
        let condition = "(kind, owner, home, name) > ($1, $2, $3, $4)"
        if let names = selection.names, let kind = selection.kind, let owner = selection.owner {
            let bounds = [names.after, names.before].flatMap { scopes.key(RecordKey(kind, $0, of: owner)) }
            return statement(
                selection, scopes, where: condition + " AND (kind, owner, home, name) < ($5, $6, $7, $8)", bounds,
                orderedBy: "home, name", limit: max(0, limit))
        }
        return statement(
            selection, scopes, where: condition,
            cursor.flatMap(start) ?? [.text(""), .integer(.min), .text(""), .text("")],
            orderedBy: "kind, owner, home, name", limit: max(1, limit))
    }

    private static func statement(
        _ selection: RecordSelection, _ scopes: ScopeNumbers, where condition: String, _ values: [PostgresValue],
        orderedBy order: String, limit: Int
    ) -> PostgresStatement {
        var table = "quittance.records"
        var condition = condition
        var values = values
        if let entry = selection.entry {
            values.append(.texts([entry]))
            // PostgreSQL plans a subquery with OFFSET separately, so it uses the index of the column `entries` rather
            // than the index of the columns in `ORDER BY`.
            table = "(SELECT * FROM quittance.records WHERE entries @> $\(values.count) OFFSET 0) AS records"
        }
        if let kind = selection.kind {
            values.append(.text(kind.rawValue))
            condition += " AND kind = $\(values.count)"
        }
        if let owner = selection.owner {
            values.append(.integer(scopes.owner(owner)))
            condition += " AND owner = $\(values.count)"
        }
        values.append(limit.parameter)
        return PostgresStatement(
            "\(rows(of: table)) WHERE \(condition) ORDER BY \(order) LIMIT $\(values.count)", values)
    }

    /// The values of the key columns in a cursor, which is a JSON array of these values. `nil` if the cursor is any
    /// other text.
    private static func start(_ cursor: ScanCursor) -> [PostgresValue]? {
        // A malformed cursor starts the scan from the beginning.
        guard let words = JSONValue(readable: cursor.rawValue.utf8)?.array, words.count == 4,
            let owner = words[1].integer, case let texts = words.compactMap(\.string), texts.count == 3
        else { return nil }
        return [.text(texts[0]), .integer(owner), .text(texts[1]), .text(texts[2])]
    }

    /// The records in a result, each with its cursor. For an unreadable record the result is an error, so that a scan
    /// can continue after the record.
    ///
    /// - Throws: `LedgerStorageError` if the key columns of a row cannot be read.
    static func found(
        _ rows: PostgresRows
    ) throws -> [(record: Result<LedgerRecord, LedgerStorageError>, cursor: ScanCursor)] {
        try rows.map { row in
            let kind = try row.next(String.self)
            var owned = row
            let number = try row.next(Int64.self)
            _ = (row.nextStored(), row.nextStored())
            let home = try row.next(String.self)
            let name = try row.next(String.self)
            let cursor = JSONValue.array([.string(kind), .number("\(number)"), .string(home), .string(name)])
            let record = Result {
                try row.record(RecordKey(RecordKind(rawValue: kind), name, of: try owned.recordOwner()))
            }.mapError { error in
                let reason = (error as? LedgerStorageError)?.message ?? "\(error)"
                return LedgerStorageError(.damaged, "The record \(kind) \(name) cannot be read: \(reason)")
            }
            return (record, ScanCursor(rawValue: cursor.compactText))
        }
    }
}

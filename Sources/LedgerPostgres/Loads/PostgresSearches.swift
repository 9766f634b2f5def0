// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
public import PurchaseLedger
import Synchronization

// What the storage reads and writes apart from a ledger decision: scans, high-water marks, events, the clock, and the
// tables of quarters.

extension PostgresLedgerStorage {
    public func chains(
        _ selection: ChainSelection, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<ChainKey> {
        try await translated {
            let found = try ChainSearch.found(
                try await self.requests.read(ChainSearch.statement(selection, after: cursor, limit: limit)))
            let isLast = selection != .all || found.count < max(1, limit)
            return ScanPage(items: found.map(\.key), next: isLast ? nil : found.last?.cursor)
        }
    }

    /// The customers in the order of their numbers. A customer has a row for each id. All rows of a customer have the
    /// same record, so any row will do.
    public func customers(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<CustomerRecord> {
        let search = PostgresStatement(
            """
            SELECT DISTINCT ON (number) number, bundle_id, is_established, consented_at, ids, grants
            FROM quittance.customers JOIN quittance.apps ON apps.id = app WHERE number > $1 ORDER BY number LIMIT $2
            """, [.integer(cursor.flatMap { Int64($0.rawValue) } ?? 0), .integer(Int64(max(1, limit)))])
        return try await translated {
            let found = try await self.requests.read(search).map { row in
                try row.record(of: Customer(number: try row.next(), bundleId: try row.next()))
            }
            let next = found.count < max(1, limit) ? nil : found.last.map { "\($0.customer.number)" }
            return ScanPage(items: found, next: next.map(ScanCursor.init))
        }
    }

    /// The maximum number of rows, of any app, that a page of an app's customers reads. No index has the customers of
    /// an app alone. Reading so many rows takes some ten milliseconds. The number is a constant
    /// in the SQL: PostgreSQL would plan a parameter as a tenth of the table.
    private static let rowsOfPage = 10_000

    /// The maximum number of customers on a page if Citus distributes the tables. The holdings of each customer then
    /// need SQL statements of their own, of up to 25 milliseconds each.
    private static let distributedPage = 25

    /// The rows of any app after a cursor: the column of their places, the order, and the condition with its values.
    private static func rows(
        _ selection: CustomerSelection, after cursor: ScanCursor?
    ) -> (place: String, order: String, condition: String, bounds: [PostgresValue]) {
        let number = cursor.flatMap { Int64($0.rawValue) }
        return switch selection {
        case .all: ("number", "number", "number > $1", [.integer(number ?? 0)])
        case .newest: ("number", "number DESC", "number < $1", [.integer(number ?? .max)])
        case .beginning(let text):
            (
                "home", "home", "home \(cursor == nil ? ">=" : ">") $1 AND home < $2",
                [.text(cursor?.rawValue ?? text), .text(CustomerSelection.end(of: text))]
            )
        }
    }

    /// The customers of an app among the next rows. A customer has a row for each id.
    public func customers(
        _ selection: CustomerSelection, of bundleId: String, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<CustomerRecord> {
        let limit = max(1, isDistributed ? min(limit, Self.distributedPage) : limit)
        let (place, order, condition, bounds) = Self.rows(selection, after: cursor)
        let isDescending = selection == .newest
        let end = PostgresStatement(
            """
            SELECT count(*), \(isDescending ? "min" : "max")(place)::text
            FROM (SELECT \(place) AS place FROM quittance.customers
                  WHERE \(condition) ORDER BY \(order) LIMIT \(Self.rowsOfPage)) AS next
            """, bounds)
        return try await translated {
            let app = try await self.inOneEpoch { try await self.scopeNumbers([bundleId], [], in: $0).app(bundleId) }
            let ends = try await self.requests.read(end).map { row in
                (rows: try row.next(Int.self), last: try row.next(String?.self))
            }
            guard let end = ends.first, let last = end.last else { return ScanPage(items: [], next: nil) }
            let count = bounds.count
            let bound: PostgresValue = place == "number" ? .integer(Int64(last) ?? 0) : .text(last)
            let search = PostgresStatement(
                """
                SELECT DISTINCT ON (\(place)) \(place)::text AS place, number, is_established, consented_at, ids, grants
                FROM quittance.customers
                WHERE \(condition) AND \(place) \(isDescending ? ">=" : "<=") $\(count + 1) AND app = $\(count + 2)
                ORDER BY \(order) LIMIT $\(count + 3)
                """, bounds + [bound, .integer(app), .integer(Int64(limit))])
            let found = try await self.requests.read(search).map { row in
                (
                    place: try row.next(String.self),
                    customer: try row.record(of: Customer(number: try row.next(), bundleId: bundleId))
                )
            }
            let isAtEnd = found.count < limit && end.rows < Self.rowsOfPage
            let next = found.count < limit ? last : found.last?.place
            return ScanPage(items: found.map(\.customer), next: isAtEnd ? nil : next.map { ScanCursor(rawValue: $0) })
        }
    }

    public func documents(
        _ selection: DocumentSelection, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<StoredDocument> {
        try await translated {
            let search = DocumentSearch.statement(selection, after: cursor, limit: limit)
            let locations = try await self.requests.read(search).map { try $0.location() }
            if self.isDistributed { self.knownHomes.note(locations) }
            let names = locations.map(\.name)
            let found = try await self.documents(names)
            let isLast = selection != .all || names.count < max(1, limit)
            return ScanPage(
                items: found.compactMap { $0.1 },
                damage: found.filter { $0.1 == nil }.map { "Document \($0.0) differs from the stored document" },
                next: isLast ? nil : names.last.map { ScanCursor(rawValue: "\($0)") })
        }
    }

    /// The documents with the given names; `nil` in place of an unreadable document. Documents erased after the search
    /// for their names are left out.
    private func documents(_ names: [Provenance]) async throws -> [(Provenance, StoredDocument?)] {
        let readSet = ReadSet(keys: Set(names.map(LedgerKey.content)))
        let (_, loaded) = try await inOneEpoch { try await self.loaded(readSet, [LedgerQuery()], in: $0) }
        return names.compactMap { name in loaded.rows[name].map { (name, $0.stored(loaded.parts)) } }
    }

    /// The notifications among the documents signed last. The document signed last need not have arrived last, because
    /// an old document may arrive late.
    public func notificationHours(
        of bundleId: String?, among count: Int, limit: Int
    ) async throws -> [NotificationHour] {
        try await translated {
            try await self.requests.read(DocumentSearch.notificationHours(of: bundleId, among: count, limit)).map {
                NotificationHour(
                    try $0.next(Int64.self), Int(try $0.next(Int64.self)), newest: try $0.next(Timestamp.self))
            }
        }
    }

    public func records(
        _ selection: RecordSelection, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<LedgerRecord> {
        let apps = Set([selection.owner?.bundleId].compactMap(\.self))
        let scopes = Set([selection.owner?.scope].compactMap(\.self))
        return try await translated {
            let answers = try await self.inOneEpoch { epoch in
                let numbers = try await self.scopeNumbers(apps, scopes, in: epoch)
                let search = RecordSearch.statement(selection, numbers, after: cursor, limit: limit)
                return try await self.requests.read([search], during: epoch)
            }
            let found = try answers.flatMap(RecordSearch.found)
            let isLast = found.count < max(1, limit) || selection.dueAt != nil || selection.names != nil
            var page = ScanPage<LedgerRecord>(items: [], next: isLast ? nil : found.last?.cursor)
            for (record, _) in found {
                switch record {
                case .success(let record): page.items.append(record)
                case .failure(let damage): page.damage.append(damage.message)
                }
            }
            // Citus gathers the records of its nodes, so the page is sorted again.
            if let now = selection.dueAt { page.items.sort { $0.dueAt ?? now < $1.dueAt ?? now } }
            return page
        }
    }

    public func apps() async throws -> [String] {
        try await translated {
            try await self.requests.read(EventSearch.allErased).map { try $0.next(String.self) }.sorted()
        }
    }

    /// Before the marks are read, numbers all events that still wait for a number.
    public func marks() async throws -> HighWaterMarks {
        try await translated {
            try await self.feed.number()
            let answers = try await self.requests.read([
                EventSearch.counters, EventSearch.allErased, EventSearch.allEpochs,
            ])
            return try Self.marks(answers)
        }
    }

    private static func marks(_ answers: [PostgresRows]) throws -> HighWaterMarks {
        var marks = HighWaterMarks()
        let counters = try answers[0].map { try $0.next(Int64.self) }
        guard counters.count == 2 else { throw LedgerStorageError(.damaged, "The ledger has lost its last numbers") }
        marks.lastEvent = counters[0]
        marks.lastCustomer = counters[1]
        for (app, erased) in try answers[1].map({ (try $0.next(String.self), try $0.next(Int64.self)) }) {
            marks.erasedEvents[app] = erased
        }
        let epochs = try answers[2].map { row in
            (app: try row.next(String.self), epoch: EventEpoch(id: try row.next(), last: try row.next()))
        }
        marks.epochs = Dictionary(grouping: epochs, by: \.app).mapValues { EventEpochs($0.map(\.epoch)) }
        return marks
    }

    public func keepsAllDocuments() async throws -> Bool {
        let statement = PostgresStatement("SELECT keeps_documents FROM quittance.retention WHERE id = 1")
        return try await translated {
            try await self.requests.read(statement).map { try $0.next(Bool.self) }.first ?? true
        }
    }

    public func proveWritable() async throws {
        guard !isDistributed else { return try await translated { try await self.proveNodesWritable() } }
        try await translated { _ = try await self.requests.send(.transaction([self.proofOfWriting()])) }
    }
}

// MARK: - Clocks

extension PostgresLedgerStorage {
    /// The result is zero if the database's time lies within the round trip.
    public func clockDifference(now: @Sendable () -> Timestamp) async throws -> Duration? {
        let statement = PostgresStatement("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
        return try await translated {
            let before = now()
            let rows = try await self.requests.read(statement)
            let after = now()
            guard let time = try rows.map({ try $0.next(Timestamp.self) }).first else { return nil }
            // The database read its clock between `before` and `after`.
            let nearest = min(max(time, before), after)
            return .milliseconds(nearest.milliseconds &- time.milliseconds)
        }
    }
}

// MARK: - Events

extension PostgresLedgerStorage {
    /// If the database requires a synchronous standby, waits until the standby has the events of the page. Without the
    /// wait, a failover could lose events that a client has already read, and reuse their numbers for other events.
    public func events(of bundleId: String, after cursor: EventCursor?, limit: Int) async throws -> EventPage {
        try await events(nil, of: bundleId, after: cursor, limit: limit)
    }

    public func events(
        _ selection: EventSelection?, of bundleId: String, after cursor: EventCursor?, limit: Int
    ) async throws -> EventPage {
        try await translated {
            try await self.inOneEpoch { epoch in
                let app = try await self.scopeNumbers([bundleId], [], in: epoch).app(bundleId)
                let found = try await self.feed.page(
                    selection, of: bundleId, app, after: cursor, limit: limit, in: epoch)
                // The cursor of a page without events passes those that were compared.
                if found.needsConfirmation, !found.page.events.isEmpty || selection != nil {
                    try await self.confirm(in: epoch)
                }
                return found.page
            }
        }
    }

    public func endOfEvents(of bundleId: String) async throws -> EventCursor {
        try await translated {
            try await self.inOneEpoch { epoch in
                let app = try await self.scopeNumbers([bundleId], [], in: epoch).app(bundleId)
                return try await self.feed.end(of: app, in: epoch)
            }
        }
    }

    public func cursor(beforeNewest count: Int, of bundleId: String) async throws -> EventCursor? {
        try await translated {
            try await self.inOneEpoch { epoch in
                let app = try await self.scopeNumbers([bundleId], [], in: epoch).app(bundleId)
                return try await self.feed.cursor(beforeNewest: count, of: app, in: epoch)
            }
        }
    }

    public func beginEpoch(at now: Timestamp) async throws {
        try await translated { try await self.feed.beginEpoch(at: now) }
    }

    public func eraseEvents(before instant: Timestamp, limit: Int) async throws -> Int {
        try await translated { try await self.feed.erase(before: instant, limit: limit) }
    }
}

// MARK: - Tables of quarters

extension PostgresLedgerStorage {
    /// Adds the missing tables of documents, of which there is one for each calendar quarter. An attempt fails silently
    /// if the role does not own the tables, if a concurrent server adds the same tables or holds a lock, or if the node
    /// is not Citus's coordinator. The next call tries again. Until then ``condition`` names the missing tables, at
    /// most two of them.
    public func prepare(at now: Timestamp) async {
        // After a failure the next call tries again.
        _ = try? await requests.pool.run(.transaction(Migrator.timeouts + [Quarters.add(at: now)]))
        do {
            let missing = try Quarters.missing(try await requests.read(Quarters.search(at: now)))
            missingQuarters.withLock { $0 = missing }
        } catch {
            // Until a search succeeds, the condition names the tables that the last successful search found missing.
        }
    }

    public var condition: StorageCondition {
        let quarters = missingQuarters.withLock { $0 }.prefix(Self.namedQuarters).map {
            LedgerSchema.text($0.concern, in: requests.pool.schema)
        }
        let nodes = nodeConcern.withLock { $0 }
        let concerns = quarters + [feed.concern, nodes].compactMap(\.self)
        return StorageCondition(
            concern: concerns.isEmpty ? nil : concerns.joined(separator: " "), isDegraded: nodes != nil)
    }

    /// The maximum number of missing tables that a condition names.
    private static let namedQuarters = 2
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Each app numbers its own events. A cursor consists of the number of the last event that the caller has read, and of
// an epoch. A new epoch begins whenever events may have been lost, for example after a restore from a backup, so that a
// number of a lost event is not taken for a number of a later event.

extension SQLiteLedgerSession {
    private static let columns = "recordedAt, kind, customer, chainName, body"

    func append(_ event: LedgerEvent) throws {
        let app = try addedApp(event.scope.bundleId)
        let scope = try addedScope(event.scope)
        let last = try lastSequences[app] ?? eventBounds(of: event.scope.bundleId).last
        let sequence = event.cursor?.number ?? last &+ 1
        try run(
            """
            INSERT INTO events (app, sequence, scope, \(Self.columns))
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)\(event.cursor == nil ? "" : " ON CONFLICT DO NOTHING")
            """,
            [
                .integer(app), .integer(sequence), .integer(scope), event.recordedAt.stored, event.kind.stored,
                event.customer?.number.stored ?? .null, event.chainName.stored,
                .bytes(StoredBody.packed(event.body)),
            ])
        lastSequences[app] = max(last, sequence)
    }

    /// - Parameter selection: Restricts the search; `nil` for all events.
    func events(
        _ selection: EventSelection?, of bundleId: String, after cursor: EventCursor?, limit: Int
    ) throws -> EventPage {
        let bounds = try eventBounds(of: bundleId)
        let epochs = try epochs(of: bundleId)
        let start = try epochs.start(after: cursor, erased: bounds.lastErased, last: bounds.last)
        let place = [try app(bundleId).stored, .integer(start)]
        let restriction = try selection.map { try parameters($0, after: place) } ?? []
        let found = try all(
            """
            SELECT (SELECT id FROM customerIds WHERE customerIds.customer = events.customer ORDER BY place LIMIT 1),
                   bundleId, environment, sequence, \(Self.columns)
            FROM events LEFT JOIN scopes ON scopes.id = scope LEFT JOIN apps ON apps.id = scopes.app
            WHERE events.app = ?1 AND sequence > ?2 \(selection == nil ? "" : Self.restriction)
            ORDER BY sequence LIMIT ?3
            """, place + [max(0, limit).stored] + restriction
        ) { row in
            let customerId = try row.next(String?.self)
            let scope = try row.scope()
            let cursor = epochs.cursor(try row.next())
            var event = try row.event(in: scope)
            event.cursor = cursor
            return (customerId: customerId, event: event)
        }
        var page = EventPage(found, after: epochs.cursor(start))
        if let selection { page.events = page.events.filter(selection.includes) }
        return page
    }

    /// The condition for an event of an ``EventSelection``, or for the last that is compared: the page ends there.
    private static let restriction = """
        AND sequence <= ?4 AND (sequence = ?4 OR (
            (?5 IS NULL OR kind IN (SELECT value FROM json_each(?5)))
            AND (?6 IS NULL OR scope = (SELECT id FROM scopes WHERE app = ?1 AND environment = ?6)
                OR kind IN (\(EventSelection.list(EventSelection.ofEachEnvironment))))
            AND (?7 IS NULL OR customer IN (SELECT value FROM json_each(?7))
                OR kind IN (\(EventSelection.list(EventSelection.ofEachCustomer))))))
        """

    /// The parameters of ``restriction``, after `place`: the app, and the number after which the search begins.
    private func parameters(_ selection: EventSelection, after place: [StoredValue]) throws -> [StoredValue] {
        let last = try first(
            """
            SELECT coalesce(
                (SELECT sequence FROM events WHERE app = ?1 AND sequence > ?2 ORDER BY sequence LIMIT 1 OFFSET ?3),
                (SELECT max(sequence) FROM events WHERE app = ?1))
            """, place + [(selection.among - 1).stored]
        ) { try $0.next(Int64?.self) }
        let kinds = selection.kinds.map { JSONValue.array($0.map(JSONValue.string)).compactText }
        let customers = selection.customers.map { JSONValue.array($0.map { .number("\($0.number)") }).compactText }
        return [(last ?? nil).stored, kinds.stored, selection.environment?.rawValue.stored ?? .null, customers.stored]
    }

    func endOfEvents(of bundleId: String) throws -> EventCursor {
        try epochs(of: bundleId).end(try eventBounds(of: bundleId).last)
    }

    func cursor(beforeNewest count: Int, of bundleId: String) throws -> EventCursor? {
        let sequence = try first(
            "SELECT sequence FROM events WHERE app = ? ORDER BY sequence DESC LIMIT 1 OFFSET ?",
            [try app(bundleId).stored, max(0, count).stored]
        ) { try $0.next(Int64.self) }
        return try sequence.map { try epochs(of: bundleId).cursor($0) }
    }

    /// The number of an app's last erased event, and the highest number that cursors of the app may have.
    private func eventBounds(of bundleId: String) throws -> (lastErased: Int64, last: Int64) {
        let bounds = try first(
            "SELECT erasedEvents, \(Schema.lastEvent) FROM apps WHERE bundleId = ?", [.text(bundleId)]
        ) { (lastErased: try $0.next(Int64.self), last: try $0.next(Int64.self)) }
        if let bounds { return bounds }
        let shared = try first("SELECT max(sharedSequence) FROM apps", []) { try $0.next(Int64?.self) }
        return (0, (shared ?? nil) ?? 0)
    }

    func marks() throws -> HighWaterMarks {
        var marks = HighWaterMarks()
        marks.lastCustomer = try lastCustomer()
        for bundleId in try all("SELECT bundleId FROM apps", [], { try $0.next(String.self) }) {
            let (lastErased, last) = try eventBounds(of: bundleId)
            marks.erasedEvents[bundleId] = lastErased
            marks.lastEvent = max(marks.lastEvent, last)
            marks.epochs[bundleId] = try epochs(of: bundleId)
        }
        return marks
    }

    private func epochs(of bundleId: String) throws -> EventEpochs {
        EventEpochs(
            try all(
                "SELECT epochs.id, last FROM epochs JOIN apps ON apps.id = app WHERE bundleId = ? ORDER BY place",
                [.text(bundleId)]
            ) { EventEpoch(id: try $0.next(), last: try $0.next()) })
    }

    private func put(_ epochs: EventEpochs, of bundleId: String) throws {
        let app = StoredValue.integer(try addedApp(bundleId))
        try run("DELETE FROM epochs WHERE app = ?", [app])
        for (index, epoch) in epochs.all.enumerated() {
            try run(
                "INSERT INTO epochs (app, place, id, last) VALUES (?, ?, ?, ?)",
                [app, .integer(Int64(index)), epoch.id.stored, epoch.last.stored])
        }
    }

    /// Begins an epoch of each app.
    func beginEpochs(at now: Timestamp) throws {
        for statement in Schema.beginEpochs(at: now) { try run(statement, []) }
        lastSequences = [:]
    }

    /// Raises the numbers that the ledger has assigned so far to at least those of `marks`, for example in a copy of a
    /// ledger. ``HighWaterMarks/lastEvent`` becomes the shared number: the next event of every app gets a number above
    /// it. See ``Schema``.
    func raise(_ marks: HighWaterMarks) throws {
        for (bundleId, erased) in marks.erasedEvents {
            try run(
                "UPDATE apps SET erasedEvents = max(erasedEvents, ?) WHERE id = ?",
                [.integer(erased), .integer(try addedApp(bundleId))])
        }
        for (bundleId, epochs) in marks.epochs { try put(epochs, of: bundleId) }
        if marks.lastEvent > 0 {
            try run("UPDATE apps SET sharedSequence = max(sharedSequence, ?)", [.integer(marks.lastEvent)])
            lastSequences = [:]
        }
        if marks.lastCustomer > 0 { try raiseLastCustomer(to: marks.lastCustomer) }
    }

    /// Erases at most `limit` events recorded before an instant: app by app, the oldest first.
    func eraseEvents(before instant: Timestamp, limit: Int) throws -> Int {
        var erased = 0
        for app in try all("SELECT id FROM apps", [], { try $0.next(Int64.self) }) where erased < limit {
            let oldest = try all(
                "SELECT sequence, recordedAt FROM events WHERE app = ? ORDER BY sequence LIMIT ?",
                [.integer(app), (limit - erased).stored]
            ) { (sequence: try $0.next(Int64.self), recordedAt: try $0.next(Timestamp.self)) }
            .prefix { $0.recordedAt < instant }
            guard let last = oldest.last else { continue }
            let bounds = [StoredValue.integer(last.sequence), .integer(app)]
            try run("DELETE FROM events WHERE sequence <= ? AND app = ?", bounds)
            try run("UPDATE apps SET erasedEvents = ? WHERE id = ?", bounds)
            erased += oldest.count
        }
        return erased
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Each app has its own sequence of events, and a cursor is a number in it: that of the last event before it.

extension SQLiteLedgerSession {
    private static let columns = """
        kind, scope, recordedAt, effectiveAt, customer, originalTransactionId, transactionId, productId, detail,
        beforeStatus, beforeProductId, beforeUntil, beforeWillRenew, afterStatus, afterProductId, afterUntil, afterWillRenew
        """

    func append(_ event: LedgerEvent) throws {
        let (app, scope) = (try addedApp(event.scope.bundleId), try addedScope(event.scope))
        let sequence = try (lastSequences[app] ?? eventBounds(of: event.scope.bundleId).last) &+ 1
        try run(
            """
            INSERT INTO events (app, sequence, \(Self.columns))
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                .integer(app), .integer(sequence), .text(event.kind.rawValue), .integer(scope),
                .time(event.recordedAt), .time(event.effectiveAt), .integer(event.customer?.number),
                .text(event.originalTransactionId), .text(event.transactionId), .text(event.productId),
                .text(event.detail),
            ] + ChainState.bindings(event.before) + ChainState.bindings(event.after))
        lastSequences[app] = sequence
    }

    func events(of bundleId: String, after cursor: EventCursor?, limit: Int) throws -> EventPage {
        let (erased, last) = try eventBounds(of: bundleId)
        let start = cursor.map { Int64($0.rawValue) ?? -1 } ?? erased
        guard 0...max(0, last) ~= start, cursor.map({ $0 == EventCursor(start) }) ?? true else {
            throw EventCursorError.invalid
        }
        guard start >= erased else { throw EventCursorError.expired(oldest: EventCursor(erased)) }
        let rows = try all(
            """
            SELECT sequence, (SELECT id FROM customerIds WHERE customerIds.customer = events.customer ORDER BY place LIMIT 1),
                   \(Self.columns)
            FROM events WHERE app = ? AND sequence > ? ORDER BY sequence LIMIT ?
            """, [.integer(try app(bundleId)), .integer(start), .number(max(0, limit))]
        ) { (sequence: try $0.integer(), customerId: try $0.textIfAny(), row: try EventRow(&$0)) }
        var page = EventPage(events: [], customerIds: [:], next: EventCursor(rows.last?.sequence ?? start))
        for (sequence, customerId, row) in rows {
            let event = row.event(in: try scope(numbered: row.scope), EventCursor(sequence))
            page.events.append(event)
            if let customer = event.customer, let customerId { page.customerIds[customer] = customerId }
        }
        return page
    }

    /// The sequence through which an app's events were erased, and that of its last event.
    ///
    /// Older files had one sequence for all apps, so that a cursor may be beyond the app's own events. It must stay valid, and
    /// the app's next event must be behind it.
    private func eventBounds(of bundleId: String) throws -> (erased: Int64, last: Int64) {
        let bounds = try first(
            """
            SELECT erasedEvents, max(erasedEvents, (SELECT max(sharedSequence) FROM apps),
                                     coalesce((SELECT max(sequence) FROM events WHERE app = apps.id), 0))
            FROM apps WHERE bundleId = ?
            """, [.text(bundleId)]
        ) { (erased: try $0.integer(), last: try $0.integer()) }
        if let bounds { return bounds }
        let shared = try first("SELECT max(sharedSequence) FROM apps", []) { try $0.integerIfAny() }
        return (0, (shared ?? nil) ?? 0)
    }

    /// Erases the oldest events of each app that were recorded before an instant.
    func eraseEvents(before instant: Timestamp, limit: Int) throws -> Int {
        var erased = 0
        for app in try all("SELECT id FROM apps", [], { try $0.integer() }) where erased < limit {
            let oldest = try all(
                "SELECT sequence, recordedAt FROM events WHERE app = ? ORDER BY sequence LIMIT ?",
                [.integer(app), .number(limit - erased)]
            ) { (sequence: try $0.integer(), recordedAt: try $0.time()) }.prefix { $0.recordedAt < instant }
            guard let last = oldest.last else { continue }
            let bounds = [Binding.integer(last.sequence), .integer(app)]
            try run("DELETE FROM events WHERE sequence <= ? AND app = ?", bounds)
            try run("UPDATE apps SET erasedEvents = ? WHERE id = ?", bounds)
            erased += oldest.count
        }
        return erased
    }
}

extension EventCursor {
    fileprivate init(_ sequence: Int64) {
        self.init(rawValue: "\(sequence)")
    }
}

/// A row of `events`.
private struct EventRow {
    let scope: Int64
    private let kind: LedgerEvent.Kind
    private let recordedAt: Timestamp
    private let effectiveAt: Timestamp
    private let customer: Int64?
    private let originalTransactionId: String?
    private let transactionId: String?
    private let productId: String?
    private let detail: String?
    private let before: ChainState?
    private let after: ChainState?

    init(_ row: inout RowReader) throws {
        kind = try row.word()
        scope = try row.integer()
        (recordedAt, effectiveAt) = (try row.time(), try row.time())
        customer = try row.integerIfAny()
        (originalTransactionId, transactionId) = (try row.textIfAny(), try row.textIfAny())
        (productId, detail) = (try row.textIfAny(), try row.textIfAny())
        (before, after) = (try ChainState(&row), try ChainState(&row))
    }

    func event(in scope: LedgerScope, _ cursor: EventCursor) -> LedgerEvent {
        var event = LedgerEvent(
            kind, in: scope, at: recordedAt,
            customer: customer.map { Customer(number: $0, bundleId: scope.bundleId) },
            originalTransactionId: originalTransactionId, transactionId: transactionId, productId: productId,
            detail: detail)
        (event.cursor, event.effectiveAt, event.before, event.after) = (cursor, effectiveAt, before, after)
        return event
    }
}

// MARK: - States

extension ChainState {
    /// Four columns; all NULL if there is none.
    static func bindings(_ state: ChainState?) -> [Binding] {
        [.text(state?.status.rawValue), .text(state?.productId), .time(state?.until), .flag(state?.willRenew)]
    }

    /// Reads ``bindings(_:)``.
    init?(_ row: inout RowReader) throws {
        guard let status: SubscriptionState.Status = try row.wordIfAny() else {
            row.skip(3)
            return nil
        }
        self.init(
            status: status, productId: try row.textIfAny(), until: try row.timeIfAny(),
            willRenew: try row.flagIfAny())
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Puts events into the table `outbox`, moves them to the table `events` with a number for each, and reads them by
// number.

/// The columns common to the outbox and the table of events.
private enum EventColumns {
    static let key = ["recorded_at", "home", "source", "scope", "version", "place"]

    static let values = ["kind", "customer", "body"]

    /// The types of the key's columns, and then of the other columns.
    static let types: [ColumnType] =
        [.integer, .text, .integer, .integer, .integer, .integer] + [.text, .integer, .bytes]

    static let keyList = key.joined(separator: ", ")
    static let valueList = values.joined(separator: ", ")

    /// The columns that `StoredRow.event(in:)` reads.
    static let readList = "recorded_at, kind, customer, \(EventSource.chainName), body"
}

/// The origin of an event. It is a column of the event's key.
enum EventSource: Int64 {
    /// A chain, which is a subscription with all its renewals, or a product bought once. The `home` of the event is the
    /// name of the chain.
    case chain = 0
    /// No chain. The `home` is empty.
    case noChain = 1
    /// A chain, for an event copied from a different ledger. The `version` in the key is then the event's number in the
    /// copied ledger. Copied events have a source of their own, so no later event of the chain gets the same key.
    case copiedChain = 2
    /// No chain, for an event copied from a different ledger.
    case copiedNoChain = 3

    /// The name of the event's chain; NULL without a chain.
    static let chainName =
        "CASE WHEN source IN (\(noChain.rawValue), \(copiedNoChain.rawValue)) THEN NULL ELSE home END"

    var value: PostgresValue { .integer(rawValue) }
}

extension RowStatement {
    fileprivate static let insertNumbered = insert(
        into: "quittance.events",
        zip(["sequence", "app"] + EventColumns.key + EventColumns.values, [.integer, .integer] + EventColumns.types)
            .map { ($0, $1) }, "ON CONFLICT DO NOTHING")
}

extension CommitPlan {
    private static let insert = RowStatement.insert(
        into: "quittance.outbox", zip(EventColumns.key + EventColumns.values, EventColumns.types).map { ($0, $1) })

    private static let raiseCounter = "UPDATE quittance.counter SET last = greatest(last, $1) WHERE id = $2"

    /// Adds numbered events copied from a different ledger.
    ///
    /// The counter, which is the row with the last number given to an event, is locked before the events are inserted,
    /// as in ``EventSequencer``.
    mutating func insertNumbered(_ events: [LedgerEvent]) {
        let numbered = events.compactMap { event in event.cursor?.number.map { (number: $0, event: event) } }
        guard let last = numbered.map(\.number).max() else { return }
        add(Self.raiseCounter, [.integer(last), .integer(1)])
        for (number, event) in numbered {
            let source = event.chainName == nil ? EventSource.copiedNoChain : .copiedChain
            let key: [PostgresValue] = [
                event.recordedAt.parameter, .text(event.chainName ?? ""), source.value,
                .integer(scopes.scope(event.scope)), .integer(number), .integer(0),
            ]
            let app = PostgresValue.integer(scopes.app(event.scope.bundleId))
            add(RowStatement.insertNumbered, [.integer(number), app] + key + event.values)
        }
    }

    /// Raises the last numbers of events, customers and erased events to at least those of the copied ledger.
    mutating func raise(_ marks: HighWaterMarks) {
        for (last, id) in [(marks.lastEvent, 1), (marks.lastCustomer, 2)] where last > 0 {
            add(Self.raiseCounter, [.integer(last), .integer(Int64(id))])
        }
        for (bundleId, erased) in marks.erasedEvents.sorted(by: { $0.key < $1.key }) where erased > 0 {
            add(EventSearch.raiseErased, [.integer(scopes.app(bundleId)), .integer(erased)])
        }
    }

    /// Replaces the epochs of the given apps with those of the copied ledger, see ``PurchaseLedger/EventEpoch``.
    mutating func put(_ epochs: [String: EventEpochs]) {
        for (bundleId, epochs) in epochs.sorted(by: { $0.key < $1.key }) {
            let app = PostgresValue.integer(scopes.app(bundleId))
            add("DELETE FROM quittance.epochs WHERE app = $1", [app])
            for (index, epoch) in epochs.all.enumerated() {
                add(
                    "INSERT INTO quittance.epochs (app, place, id, last) VALUES ($1, $2, $3, $4)",
                    [app, .integer(Int64(index)), .text(epoch.id), epoch.last.parameter])
            }
        }
    }

    /// Adds events to the outbox. In their keys, `version` is the chain's version after the commit, so it orders the
    /// events of a chain. For an event without a chain it is the ``stamp`` of the commit. `place` orders the events of
    /// a commit.
    mutating func append(_ events: [LedgerEvent]) {
        for (index, event) in events.enumerated() where event.cursor == nil {
            let chain = event.chainName.map { ChainKey($0, in: event.scope) }
            let version = chain.map { (loaded.chains[$0]?.version ?? 0) + 1 } ?? stamp
            let key: [PostgresValue] = [
                event.recordedAt.parameter, .text(chain?.name ?? ""),
                (chain == nil ? EventSource.noChain : .chain).value, .integer(scopes.scope(event.scope)),
                .integer(version), .integer(Int64(index)),
            ]
            add(Self.insert, key + event.values)
        }
    }
}

extension LedgerEvent {
    /// The values of ``EventColumns/values``.
    fileprivate var values: [PostgresValue] {
        [.text(kind.rawValue), customer.map { .integer($0.number) } ?? .null, .bytes(StoredBody.packed(body))]
    }
}

// MARK: - Numbering

/// Numbers the events in the outbox. Readers see only numbered events.
///
/// The row of the table `counter` with the `id` 1 has the last number given. Only a transaction that has locked this
/// row gives numbers, and the lock lasts until the transaction's commit. A number therefore becomes visible only after
/// all smaller numbers, and no reader skips an event. A unique key prevents a second number for an event.
///
/// An event leaves the outbox in the transaction that numbers the event. On Citus this would be unsafe, because the
/// outbox and the counter may be on different nodes. The next server might find the counter's row unlocked before the
/// removal from the outbox becomes visible. On Citus the server instead reads the outbox and inserts the numbered
/// events itself. The insertion commits only if the counter has not changed since the server read it. A separate
/// transaction then removes the events from the outbox.
enum EventSequencer {
    /// The maximum number of events to number in a transaction.
    static let batch = 5000

    /// Locks the counter. Later statements of the transaction see everything committed before the lock.
    static let lock = hold("FOR UPDATE")

    /// Locks the counter unless a concurrent server holds the lock. Without the lock, later statements of the
    /// transaction have no effect. `NOWAIT` is not used, because its errors would fill the log of the database.
    static let lockIfFree = hold("FOR UPDATE SKIP LOCKED")

    /// Records in a setting of the transaction whether the transaction holds the counter.
    private static func hold(_ lock: String) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT set_config('ledger.counter', CASE WHEN count(*) = 1 THEN 'held' ELSE '' END, true)
            FROM (SELECT 1 FROM quittance.counter WHERE id = 1 \(lock)) AS counter
            """)
    }

    private static let isHeld = "current_setting('ledger.counter', true) = 'held'"

    /// The order of numbering, which keeps a chain's events in the order of its versions. A commit that changes the
    /// chain must have loaded the chain as the previous commit left it. The later transaction therefore begins after
    /// the previous commit has ended, and has a greater `added`. Events of the same commit are in the order of their
    /// keys.
    private static let order = (["added"] + EventColumns.key).joined(separator: ", ")

    /// The condition for events that may be new. The second range excludes nothing, but lowers PostgreSQL's estimate:
    /// with two ranges and no statistics the estimate is a single row, and PostgreSQL reads the rows in the order of
    /// the index. For an estimate of two rows, PostgreSQL would read the rows in a different way and sort them, and the
    /// index would stay full of entries of dead rows.
    private static let isNew =
        "added BETWEEN $1 AND \(Int64.max) AND recorded_at BETWEEN \(Int64.min) AND \(Int64.max)"

    /// Numbers the oldest events in the outbox, at most ``batch``. Returns how many events were numbered.
    ///
    /// - Parameter first: The first transaction that may have left events in the outbox, see ``waiting(since:)``.
    static func move(since first: Int64) -> PostgresStatement { PostgresStatement(moveText, [.integer(first)]) }

    private static let moveText = """
        WITH oldest AS (
            DELETE FROM quittance.outbox USING (
                SELECT ctid AS tuple FROM quittance.outbox WHERE \(isNew) AND \(isHeld)
                ORDER BY \(order) LIMIT \(batch)) AS found
            WHERE outbox.ctid = found.tuple
            RETURNING \(order), \(EventColumns.valueList)),
        batch AS (
            SELECT row_number() OVER (ORDER BY \(order)) AS number, \(EventColumns.keyList),
                   \(EventColumns.valueList)
            FROM oldest),
        inserted AS (
            INSERT INTO quittance.events (sequence, app, \(EventColumns.keyList), \(EventColumns.valueList))
            SELECT (SELECT last FROM quittance.counter WHERE id = 1) + number,
                   (SELECT app FROM quittance.scopes WHERE scopes.id = batch.scope), \(EventColumns.keyList),
                   \(EventColumns.valueList)
            FROM batch ON CONFLICT (\(EventColumns.keyList)) DO NOTHING)
        UPDATE quittance.counter SET last = last + (SELECT count(*) FROM batch) WHERE id = 1 AND \(isHeld)
        RETURNING (SELECT count(*) FROM batch)
        """

    /// Begins the missing epochs before events are numbered, see ``PurchaseLedger/EventEpoch``. Each app without an
    /// epoch gets its first. An app gets a further epoch if its newest epoch began in a different database, because
    /// events numbered in the other database may be missing here. Events may also be missing after a dump was restored
    /// into the same database. The identity of the database therefore includes the oid of a table, because this oid
    /// changes with each restore. A further epoch begins with an event in each environment. The statement has no effect
    /// unless the transaction has locked the counter.
    ///
    /// - Parameter showsIdentity: Whether the database reveals its identity. If false, only
    ///   ``PostgresLedgerStorage/beginEpoch(at:)`` begins further epochs.
    static func beginEpochs(showsIdentity: Bool) -> PostgresStatement {
        PostgresStatement(
            """
            WITH here AS (SELECT \(showsIdentity ? identity : "NULL::text") AS identity WHERE \(isHeld)),
            newest AS (
                SELECT DISTINCT ON (apps.id) apps.id AS app, place, epochs.identity AS earlier, here.identity
                FROM here CROSS JOIN quittance.apps LEFT JOIN quittance.epochs ON epochs.app = apps.id
                ORDER BY apps.id, place DESC),
            noted AS (
                UPDATE quittance.epochs SET identity = newest.identity FROM newest
                WHERE epochs.app = newest.app AND epochs.place = newest.place AND newest.earlier IS NULL
                    AND newest.identity IS NOT NULL),
            ended AS (
                UPDATE quittance.epochs SET last = (SELECT last FROM quittance.counter WHERE id = 1) FROM newest
                WHERE epochs.app = newest.app AND epochs.place = newest.place AND newest.earlier <> newest.identity),
            begun AS (
                INSERT INTO quittance.epochs (app, place, id, identity)
                SELECT app, coalesce(place + 1, 0), \(Schema.newEpoch), identity FROM newest
                WHERE place IS NULL OR earlier <> identity
                RETURNING app, place),
            restored AS (
                SELECT (SELECT last FROM quittance.counter WHERE id = 1) + row_number() OVER (ORDER BY scopes.id)
                           AS sequence, scopes.app, scopes.id AS scope, \(now) AS now
                FROM quittance.scopes JOIN begun ON begun.app = scopes.app WHERE begun.place > 0),
            told AS (
                INSERT INTO quittance.events (sequence, app, \(EventColumns.keyList), \(EventColumns.valueList))
                SELECT sequence, app, now, '', \(EventSource.noChain.rawValue), scope, sequence, 0,
                       '\(LedgerEvent.Kind.ledgerRestored.rawValue)', NULL,
                       convert_to('\(EventContent.body(effectiveAt: "' || now || '"))', 'UTF8')
                FROM restored)
            UPDATE quittance.counter SET last = (SELECT max(sequence) FROM restored)
            WHERE id = 1 AND EXISTS (SELECT FROM restored)
            """)
    }

    /// The database's clock, in milliseconds.
    private static let now = "(extract(epoch FROM now()) * 1000)::bigint"

    private static let identity = "\(DatabaseIdentity.text) || ' ' || 'quittance.epochs'::regclass::oid"

    /// The scopes, each with its app.
    static let scopes = PostgresStatement("SELECT app, id FROM quittance.scopes ORDER BY id")

    /// A number that grows whenever an app that has epochs begins a further epoch.
    static let epochs = PostgresStatement("SELECT coalesce(sum(place), 0)::bigint FROM quittance.epochs")

    /// Ends the newest epoch of each app that has epochs, and begins a new epoch with an event in each environment.
    ///
    /// - Parameters:
    ///   - last: The last number given. The transaction fails if the counter has changed since it was read.
    ///   - scopes: The rows of ``scopes``.
    static func beginNextEpochs(
        after last: Int64, _ scopes: PostgresRows, at now: Int64
    ) throws -> [PostgresStatement] {
        var number = last
        let restored = try scopes.map { row in
            let app = try row.next(Int64.self)
            let scope = try row.next(Int64.self)
            number += 1
            let key: [Int64] = [number, app, now]
            let body = Array(EventContent.body(effectiveAt: "\(now)").utf8)
            return key.map(PostgresValue.integer) + [.text(""), EventSource.noChain.value]
                + [scope, number, 0].map(PostgresValue.integer)
                + [.text(LedgerEvent.Kind.ledgerRestored.rawValue), .null, .bytes(body)]
        }
        return [
            advance(from: last, to: number),
            PostgresStatement("UPDATE quittance.epochs SET last = $1 WHERE last IS NULL", [.integer(last)]),
            PostgresStatement(
                """
                INSERT INTO quittance.epochs (app, place, id)
                SELECT app, max(place) + 1, \(Schema.newEpoch) FROM quittance.epochs GROUP BY app
                """),
        ] + RowStatement.insertNumbered.statements(restored, shares: false)
    }

    /// Raises the last number given. The transaction fails if the counter has changed since it was read.
    private static func advance(from last: Int64, to next: Int64) -> PostgresStatement {
        PostgresStatement(
            """
            UPDATE quittance.counter
            SET last = CASE WHEN last = $1::bigint THEN $2::bigint ELSE quittance.conflict(last) END
            WHERE id = 1
            """, [.integer(last), .integer(next)])
    }

    /// Reads ``WaitingEvents``. The search begins at the transaction `first`, because the events of earlier
    /// transactions are numbered already. Their dead rows may stay in the index for as long as any client holds an old
    /// snapshot, and would slow down the search.
    ///
    /// - Parameter first: The first transaction that may have left events in the outbox.
    static func waiting(since first: Int64) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT (SELECT count(*) FROM (
                       SELECT 1 FROM quittance.outbox WHERE \(isNew) ORDER BY added LIMIT 1) AS waiting),
                   pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
                   pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean,
                   \(WaitingEvents.needsConfirmation)
            """, [.integer(first)])
    }
}

/// The facts that a reader of numbered events needs: whether other events still wait for their numbers, and whether a
/// standby must confirm the numbered events.
struct WaitingEvents {
    /// Whether events wait for their numbers and can get them. A standby or a read-only database gives no numbers.
    var canBeNumbered: Bool
    /// If no event waits, the oldest transaction that may still add events, because all earlier transactions have
    /// ended. `nil` if events wait.
    var emptyBefore: Int64?
    /// Whether a synchronous standby must confirm that it has the numbered events. For a read on a standby this is
    /// false, because a standby cannot ask for the confirmation.
    var needConfirmation: Bool

    static let needsConfirmation =
        "NOT pg_is_in_recovery() AND current_setting('synchronous_standby_names') <> ''"

    /// Reads the result of ``EventSequencer/waiting(since:)`` or ``EventSequencer/assumed``.
    init(_ rows: PostgresRows) throws {
        let found =
            try rows.map { row in
                (
                    waiting: try row.next(Int64.self), first: try row.next(Int64.self),
                    isReadOnly: try row.next(Bool.self), hasStandbys: try row.next(Bool.self)
                )
            }.first ?? (0, 0, false, true)
        canBeNumbered = found.waiting > 0 && !found.isReadOnly
        emptyBefore = found.waiting > 0 ? nil : found.first
        needConfirmation = found.hasStandbys
    }
}

// MARK: - Numbering on several nodes

extension EventSequencer {
    /// The maximum number of events numbered at a time. It is lower than ``batch``, because each event takes statements
    /// of its own.
    static let nodeBatch = 500

    /// Begins the first epoch of each app that has none. A failover of a node is not noticed, and so begins no epoch.
    static let beginFirstEpochs = PostgresStatement(
        """
        INSERT INTO quittance.epochs (app, place, id)
        SELECT id, 0, \(Schema.newEpoch) FROM quittance.apps
        WHERE id NOT IN (SELECT app FROM quittance.epochs) ON CONFLICT DO NOTHING
        """)

    /// The oldest events in the outbox, each with the number of its app.
    static let oldest = PostgresStatement(
        """
        SELECT app, \(EventColumns.keyList), \(EventColumns.valueList), added
        FROM quittance.outbox JOIN quittance.scopes ON scopes.id = scope
        ORDER BY \(EventColumns.keyList) LIMIT \(nodeBatch)
        """)

    /// Numbers the events that ``oldest`` found. An event that already has a number keeps it.
    ///
    /// - Parameter last: The last number given, as read before ``oldest``. The transaction fails if the counter has
    ///   changed since.
    static func number(_ rows: PostgresRows, after last: Int64) -> [PostgresStatement] {
        let advance = advance(from: last, to: last + Int64(rows.rows.count))
        let numbered = zip((last + 1)..., rows.rows).map { number, row in [.integer(number)] + row.dropLast() }
        return [advance] + RowStatement.insertNumbered.statements(numbered, shares: false)
    }

    /// Replaces ``waiting(since:)``, which would query all nodes for each page. Instead of a query, the result assumes
    /// that events are waiting, and that each node has a synchronous standby.
    static let assumed = PostgresStatement("SELECT 1::bigint, 0::bigint, false, true")

    /// Queries all nodes for events that wait for their numbers. The result is 1 if there are any, and otherwise 0.
    static let isAnyWaiting = PostgresStatement(
        "SELECT count(*) FROM (SELECT 1 FROM quittance.outbox LIMIT 1) AS waiting")

    /// Removes from the outbox the events that ``oldest`` found.
    static func remove(_ rows: PostgresRows) -> [PostgresStatement] {
        let key = EventColumns.key + ["added"]
        let conditions = key.enumerated().map { "\($1) = $\($0 + 1)" }.joined(separator: " AND ")
        return rows.rows.map { row in
            PostgresStatement(
                "DELETE FROM quittance.outbox WHERE \(conditions)",
                row.dropFirst().prefix(EventColumns.key.count) + row.suffix(1))
        }
    }
}

// MARK: - Reading

/// Statements that read events and their last numbers, and that erase events.
enum EventSearch {
    /// Selects the number of an app's last erased event; no row if the app does not exist.
    static func erased(_ app: Int64) -> PostgresStatement {
        PostgresStatement("SELECT erased_events FROM quittance.apps WHERE id = $1", [.integer(app)])
    }

    /// The last number given to an event.
    static let last = PostgresStatement("SELECT last FROM quittance.counter WHERE id = 1")

    /// The last numbers given to events and customers, in this order.
    static let counters = PostgresStatement("SELECT last FROM quittance.counter ORDER BY id")

    /// The epochs of an app.
    static func epochs(_ app: Int64) -> PostgresStatement {
        PostgresStatement("SELECT id, last FROM quittance.epochs WHERE app = $1 ORDER BY place", [.integer(app)])
    }

    /// The epochs of all apps, each with its app.
    static let allEpochs = PostgresStatement(
        """
        SELECT bundle_id, epochs.id, last FROM quittance.epochs JOIN quittance.apps ON apps.id = app ORDER BY app, place
        """
    )

    /// The number of each app's last erased event.
    static let allErased = PostgresStatement("SELECT bundle_id, erased_events FROM quittance.apps")

    /// The events of an app after a number. The numbers of erased events are skipped explicitly, because dead entries
    /// with these numbers stay in the index for a while.
    ///
    /// - Parameters:
    ///   - selection: Restricts the search. The last event that is compared is always found: the page ends there.
    ///   - joins: Whether to find the first id of each customer too.
    static func page(
        _ selection: EventSelection?, _ app: Int64, after start: Int64?, limit: Int, joins: Bool
    ) -> PostgresStatement {
        let id = joins ? firstId : "NULL::text"
        let inner = "ORDER BY sequence \(limit <= usualLimit ? "LIMIT \(usualLimit)" : "")"
        let parameters = [.integer(app), start.parameter, max(0, limit).parameter]
        guard let selection else { return PostgresStatement(pageText(id, inner: inner), parameters) }
        return PostgresStatement(
            bound(selection.among) + pageText(id, inner: "\(restriction) \(inner)"),
            parameters + [
                (selection.kinds?.sorted()).map(PostgresValue.texts) ?? .null,
                (selection.environment?.rawValue).map(PostgresValue.text) ?? .null,
                selection.customers.map { .list(.integer, $0.map { .integer($0.number) }) } ?? .null,
            ])
    }

    /// The number of the last event that is compared with a selection: a constant number of events after the start, for
    /// the same reason as ``usualLimit``.
    private static func bound(_ count: Int) -> String {
        """
        WITH bound AS MATERIALIZED (
            SELECT coalesce((SELECT sequence FROM quittance.events WHERE \(follows)
                             ORDER BY sequence LIMIT 1 OFFSET \(count - 1)),
                            (SELECT max(sequence) FROM quittance.events WHERE app = $1)) AS last)

        """
    }

    /// The condition for an event of an ``EventSelection``.
    private static let restriction = """
        AND sequence <= (SELECT last FROM bound) AND (sequence = (SELECT last FROM bound) OR (
            ($4::text[] IS NULL OR kind = ANY($4::text[]))
            AND ($5::text IS NULL OR kind IN (\(EventSelection.list(EventSelection.ofEachEnvironment)))
                OR scope = (SELECT id FROM quittance.scopes WHERE app = $1 AND environment = $5::text))
            AND ($6::bigint[] IS NULL OR customer = ANY($6::bigint[])
                OR kind IN (\(EventSelection.list(EventSelection.ofEachCustomer))))))
        """

    /// The condition for the events of the app after the start.
    private static let follows =
        "app = $1 AND sequence > (SELECT greatest(erased_events, $2) FROM quittance.apps WHERE id = $1)"

    /// The size of the largest page in the HTTP API, a constant in the SQL. If the only limit were a parameter, a
    /// cached plan would assume that the page has a tenth of the app's events, and PostgreSQL would sort all events of
    /// the app.
    private static let usualLimit = 500

    /// The first id of an event's customer. All rows of a customer have the same ids, so any row will do. `min` makes
    /// PostgreSQL use the index. With `LIMIT 1` instead, a plan made while the table is empty would scan the whole
    /// table, and PostgreSQL would keep this plan.
    private static let firstId = "(SELECT min(ids[1]) FROM quittance.customers WHERE customers.number = customer)"

    /// Scalar subqueries take the place of joins, because for a join PostgreSQL might first read and sort all events.
    private static func pageText(_ id: String, inner: String) -> String {
        """
        SELECT \(id), sequence, (SELECT environment FROM quittance.scopes WHERE scopes.id = scope),
               \(EventColumns.readList)
        FROM (SELECT * FROM quittance.events WHERE \(follows) \(inner)) AS page
        ORDER BY sequence LIMIT $3
        """
    }

    static func sequence(_ app: Int64, beforeNewest count: Int) -> PostgresStatement {
        PostgresStatement(
            "SELECT sequence FROM quittance.events WHERE app = $1 ORDER BY sequence DESC LIMIT 1 OFFSET $2",
            [.integer(app), max(0, count).parameter])
    }

    /// The first id of each of the given customers, by number.
    static func firstIds(of numbers: [Int64]) -> PostgresStatement {
        PostgresStatement(
            "SELECT number, ids[1] FROM quittance.customers WHERE number = ANY($1::bigint[])",
            [.list(.integer, numbers.map { .integer($0) })])
    }

    /// The events on a ``page(_:after:limit:joins:)``, each with the first id of its customer.
    static func found(
        _ rows: PostgresRows, of bundleId: String, _ epochs: EventEpochs
    ) throws -> [(customerId: String?, event: LedgerEvent)] {
        try rows.map { row in
            let id = try row.next(String?.self)
            let sequence = try row.next(Int64.self)
            var event = try row.event(in: LedgerScope(bundleId: bundleId, environment: try row.next()))
            event.cursor = epochs.cursor(sequence)
            return (id, event)
        }
    }

    /// The oldest events of an app.
    static func oldest(of app: Int64, limit: Int) -> PostgresStatement {
        PostgresStatement(
            "SELECT sequence, recorded_at FROM quittance.events WHERE app = $1 ORDER BY sequence LIMIT $2",
            [.integer(app), max(0, limit).parameter])
    }

    /// Raises the number of an app's last erased event.
    static let raiseErased = "UPDATE quittance.apps SET erased_events = greatest(erased_events, $2) WHERE id = $1"

    /// Erases the events of an app up to a number.
    static func erase(of app: Int64, upTo sequence: Int64) -> [PostgresStatement] {
        let bounds: [PostgresValue] = [.integer(app), .integer(sequence)]
        return [
            PostgresStatement(raiseErased, bounds),
            PostgresStatement("DELETE FROM quittance.events WHERE app = $1 AND sequence <= $2", bounds),
        ]
    }
}

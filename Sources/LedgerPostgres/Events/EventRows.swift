// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Events: put into the outbox, numbered, read by their numbers.

/// The columns that the outbox and the events have in common.
private enum EventColumns {
    static let key = ["recorded_at", "home", "source", "scope", "version", "place"]

    static let values = ["kind", "customer", "body"]

    /// The types of the key's columns, then of the values'.
    static let types: [ColumnType] =
        [.integer, .text, .integer, .integer, .integer, .integer] + [.text, .integer, .bytes]

    static let keyList = key.joined(separator: ", ")
    static let valueList = values.joined(separator: ", ")

    /// The columns that `StoredRow.event(in:)` reads.
    static let readList = "recorded_at, kind, customer, \(EventSource.chainName), body"
}

/// Where an event is from, a column of its key.
enum EventSource: Int64 {
    /// A chain, whose name is the `home` of the event.
    case chain = 0
    /// No chain: `home` is empty.
    case noChain = 1
    /// A chain, in another ledger from which the event was copied. Its version is the number that it had there, so no
    /// later event of the chain has the same key.
    case copiedChain = 2
    /// No chain, in another ledger.
    case copiedNoChain = 3

    /// The name of the event's chain.
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

    /// Adds events that have numbers, of another ledger.
    ///
    /// The counter's row is locked first, as by ``EventSequencer``.
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

    /// Raises the last numbers to those of another ledger.
    mutating func raise(_ marks: HighWaterMarks) {
        for (last, id) in [(marks.lastEvent, 1), (marks.lastCustomer, 2)] where last > 0 {
            add(Self.raiseCounter, [.integer(last), .integer(Int64(id))])
        }
        for (bundleId, erased) in marks.erasedEvents.sorted(by: { $0.key < $1.key }) where erased > 0 {
            add(EventSearch.raiseErased, [.integer(scopes.app(bundleId)), .integer(erased)])
        }
    }

    /// Replaces the epochs of some apps.
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

    /// The events of a chain are ordered by its version, those of one commit by their place.
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

/// Gives the events in the outbox their numbers, by which they become readable.
///
/// Only the holder of the counter's row gives numbers, until it commits. Therefore a number is visible only after all
/// smaller ones, and no reader skips an event. The unique key of events numbers none a second time.
///
/// An event leaves the outbox in the transaction that numbers it. On Citus the two tables may be on different nodes,
/// and the next sequencer would see the counter's row free before it sees the outbox without the event. There the
/// server reads the outbox and inserts the numbered events itself. It commits only if the counter is still as it was
/// read. It removes the events from the outbox in a transaction of their own.
enum EventSequencer {
    /// How many events are numbered in one transaction.
    static let batch = 5000

    /// Locks the counter. The statements after it see everything that was committed before.
    static let lock = hold("FOR UPDATE")

    /// The same unless another server is at it. Then the statements after it do nothing, since an error of each of them
    /// would be in the database's log.
    static let lockIfFree = hold("FOR UPDATE SKIP LOCKED")

    /// Notes in a setting of the transaction whether it holds the counter.
    private static func hold(_ lock: String) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT set_config('ledger.counter', CASE WHEN count(*) = 1 THEN 'held' ELSE '' END, true)
            FROM (SELECT 1 FROM quittance.counter WHERE id = 1 \(lock)) AS counter
            """)
    }

    private static let isHeld = "current_setting('ledger.counter', true) = 'held'"

    /// The order in which events are numbered. A chain's events come in the order of its versions: a commit that
    /// changes the chain begins after the one before has ended, and within a commit the key has that order.
    private static let order = (["added"] + EventColumns.key).joined(separator: ", ")

    /// In two ranges of a table without statistics PostgreSQL expects one row, and so reads the index in its order. For
    /// two rows it would rather sort, and leave the index full of entries of dead rows.
    private static let isNew =
        "added BETWEEN $1 AND \(Int64.max) AND recorded_at BETWEEN \(Int64.min) AND \(Int64.max)"

    /// Numbers the events that come first. Returns how many.
    ///
    /// - Parameter first: The first transaction that may have left some, see ``waiting(since:)``.
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

    /// Begins the epochs that are needed before events are numbered: the first one of each app, and another one if this
    /// is not the database in which the newest one was begun, which may have numbered events that are not here. A dump
    /// that is restored into the same database makes its tables anew, so the oid of a table tells that too. The
    /// transaction holds the counter.
    ///
    /// - Parameter showsIdentity: Whether the database says which one it is. If not, only
    ///   ``PostgresLedgerStorage/beginEpoch()`` begins further epochs.
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
                WHERE epochs.app = newest.app AND epochs.place = newest.place AND newest.earlier <> newest.identity)
            INSERT INTO quittance.epochs (app, place, id, identity)
            SELECT app, coalesce(place + 1, 0), \(Schema.newEpoch), identity FROM newest
            WHERE place IS NULL OR earlier <> identity
            """)
    }

    private static let identity = "\(DatabaseIdentity.text) || ' ' || 'quittance.epochs'::regclass::oid"

    /// Begins another epoch of each app that has one.
    ///
    /// - Parameter last: The last number that was given.
    static func beginNextEpochs(after last: Int64) -> [PostgresStatement] {
        [
            PostgresStatement("UPDATE quittance.epochs SET last = $1 WHERE last IS NULL", [.integer(last)]),
            PostgresStatement(
                """
                INSERT INTO quittance.epochs (app, place, id)
                SELECT app, max(place) + 1, \(Schema.newEpoch) FROM quittance.epochs GROUP BY app
                """),
        ]
    }

    /// Finds out about ``WaitingEvents``. A dead row that a long snapshot of somebody else keeps is passed over: what
    /// transactions before the first one have left was numbered.
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

/// What a state of the database says about events that have no number yet, and about reading those that have one.
struct WaitingEvents {
    /// Whether events wait for their numbers, and can get them: a standby or a read-only database gives none.
    var canBeNumbered: Bool
    /// If none waits, the first transaction that may still leave some: all before it have ended.
    var emptyBefore: Int64?
    /// Whether what was read must wait for a synchronous standby. What a standby itself answers cannot.
    var needConfirmation: Bool

    static let needsConfirmation =
        "NOT pg_is_in_recovery() AND current_setting('synchronous_standby_names') <> ''"

    /// Reads the answer to ``EventSequencer/waiting(since:)`` or ``EventSequencer/assumed``.
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
    /// How many events a server numbers at a time. Each takes a statement.
    static let nodeBatch = 500

    /// Begins the first epoch of each app. A node that takes over for another one is not noticed.
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

    /// Gives numbers to the events that ``oldest`` found. Those that have one already keep it.
    ///
    /// - Parameter last: The last number. Fails if it is not the last one any more.
    static func number(_ rows: PostgresRows, after last: Int64) -> [PostgresStatement] {
        let advance = PostgresStatement(
            """
            UPDATE quittance.counter
            SET last = CASE WHEN last = $1::bigint THEN $2::bigint ELSE quittance.conflict(last) END
            WHERE id = 1
            """, [.integer(last), .integer(last + Int64(rows.rows.count))])
        let numbered = zip((last + 1)..., rows.rows).map { number, row in [.integer(number)] + row.dropLast() }
        return [advance] + RowStatement.insertNumbered.statements(numbered, shares: false)
    }

    /// Takes the place of ``waiting(since:)``, which would ask all nodes for each page. Events may wait, and each node
    /// may have a standby of its own.
    static let assumed = PostgresStatement("SELECT 1::bigint, 0::bigint, false, true")

    /// Whether events wait for their numbers. Asks all nodes.
    static let isAnyWaiting = PostgresStatement(
        "SELECT count(*) FROM (SELECT 1 FROM quittance.outbox LIMIT 1) AS waiting")

    /// Removes the events that ``oldest`` found.
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

/// Events found by cursor.
enum EventSearch {
    /// The number of an app's last erased event; no row if the app has none.
    static func erased(_ app: Int64) -> PostgresStatement {
        PostgresStatement("SELECT erased_events FROM quittance.apps WHERE id = $1", [.integer(app)])
    }

    /// The last number that was given.
    static let last = PostgresStatement("SELECT last FROM quittance.counter WHERE id = 1")

    /// The last numbers of events and customers, in this order.
    static let counters = PostgresStatement("SELECT last FROM quittance.counter ORDER BY id")

    /// The epochs of an app.
    static func epochs(_ app: Int64) -> PostgresStatement {
        PostgresStatement("SELECT id, last FROM quittance.epochs WHERE app = $1 ORDER BY place", [.integer(app)])
    }

    /// The epochs of every app that has any, each with the app.
    static let allEpochs = PostgresStatement(
        """
        SELECT bundle_id, epochs.id, last FROM quittance.epochs JOIN quittance.apps ON apps.id = app ORDER BY app, place
        """
    )

    /// The number of each app's last erased event.
    static let allErased = PostgresStatement("SELECT bundle_id, erased_events FROM quittance.apps")

    /// The events of an app after a number. Erased ones are passed over, since their entries stay in the index for a
    /// while.
    ///
    /// - Parameter joins: Whether to find the first id of each customer too.
    static func page(_ app: Int64, after start: Int64?, limit: Int, joins: Bool) -> PostgresStatement {
        let id = joins ? firstId : "NULL::text"
        return PostgresStatement(
            pageText(id, inner: limit <= usualLimit ? "LIMIT \(usualLimit)" : ""),
            [.integer(app), start.parameter, max(0, limit).parameter])
    }

    /// As many events as a page of the HTTP API has at most. For a plan that it keeps PostgreSQL takes a limit that is
    /// a parameter for a tenth of the app's events, and would rather sort them all.
    private static let usualLimit = 500

    /// All rows of a customer have the same ids. With a limit instead of an aggregate PostgreSQL would rather read an
    /// empty table than its index, and keep that plan.
    private static let firstId = "(SELECT min(ids[1]) FROM quittance.customers WHERE customers.number = customer)"

    /// Subqueries of one value each, where a join would let PostgreSQL read all events first and sort them.
    private static func pageText(_ id: String, inner: String) -> String {
        """
        SELECT \(id), sequence, (SELECT environment FROM quittance.scopes WHERE scopes.id = scope),
               \(EventColumns.readList)
        FROM (SELECT * FROM quittance.events
              WHERE app = $1 AND sequence > (SELECT greatest(erased_events, $2) FROM quittance.apps WHERE id = $1)
              ORDER BY sequence \(inner)) AS page
        ORDER BY sequence LIMIT $3
        """
    }

    /// The first id of each of some customers, by number.
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

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import TestPostgres
import Testing

@testable import LedgerPostgres

// What is known to go wrong with PostgreSQL, and the test of each:
//
// | pitfall | test |
// |---|---|
// | a version that differs changes no row, and is no error | TroubleTests: nothing acknowledged is lost |
// | two servers store one document at once, and both publish it | PitfallTests: one document at three servers |
// | commits take locks in different orders, 40P01 | PitfallTests: merges and deletions |
// | a connection ends after COMMIT was sent | ThreeServersTests: cut in the middle of a COMMIT |
// | many writers on one chain | LedgerStorageContract with two servers; TroubleTests |
// | an event gets a number before another one is visible | TroubleTests: no reader skips an event; ThreeServersTests |
// | numbered events that stay in the outbox are numbered again | PitfallTests: stays in the outbox |
// | an event is erased while it is in the outbox | LedgerStorageContract: erasure of events |
// | a chain's events in the order of the servers' clocks | ConnectingTests: clocks two seconds apart |
// | servers make the tables at once | TroubleTests; ThreeServersTests starts three on an empty database |
// | both sides of a pipeline fill their buffers | PipelineTests: much more than any buffer holds |
// | a result above 16 KB blocks PQgetResult | PipelineTests: much more than any buffer holds |
// | requests without a sync of their own are one transaction | PipelineTests: the error of one request |
// | the next pipeline meets an open transaction, 25P02 | PipelineTests: requests after a transaction that failed |
// | prepared statements after tables changed, 0A000 | PipelineTests: prepared again; SchemaStepTests |
// | no answer, for hours | PipelineTests: given up at the deadline; ConnectingTests: never answers |
// | a cancel request meets another statement | PitfallTests: no statement is cancelled |
// | a pool connects again without end, and callers wait | PitfallTests: a database that never answers |
// | the wait for a standby is cancelled | StandbyTests; ThreeServersTests: fails over |
// | a pooler does not know prepared statements | ThreeServersTests: PgBouncer |

/// Tests what is known to go wrong and has no other test.
@Suite(.needsPostgres) struct PitfallTests {
    private static let clock = ContinuousClock()

    @Test func `one document at three servers at once is stored once, and publishes one event`() async throws {
        let database = try TestPostgres.database()
        let servers = [try await database.storage(), try await database.storage(), try await database.storage()]
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<20 {
                for server in servers {
                    // Without a chain nothing but the document tells that another server has it.
                    group.addTask { try await Self.addTest(number, through: server) }
                }
            }
            try await group.waitForAll()
        }
        let page = try await servers[0].events(of: TroubleTests.scope.bundleId, after: nil, limit: 500)
        #expect(page.events.compactMap { $0.content?.detail }.sorted() == (0..<20).map { "\($0)" }.sorted())
        #expect(try database.psql("SELECT count(*) FROM quittance.documents") == "20")
    }

    /// Adds a document about no chain, and an event.
    private static func addTest(_ number: Int, through storage: PostgresLedgerStorage) async throws {
        let scope = TroubleTests.scope
        let evidence = Evidence(.notification, Array("test \(number)".utf8), scope, nil) { _ in ([], []) }
        let query = LedgerQuery([.document(evidence.provenance)], arriving: [evidence])
        try await storage.commit(query) { snapshot in
            var changes = LedgerChanges()
            guard !snapshot.names.contains(evidence.provenance) else { return .commit(changes, ()) }
            let now = Timestamp(milliseconds: 1)
            changes.documents = [NewDocument(evidence, for: [], receivedAt: now)]
            changes.events = [
                LedgerEvent(
                    .notificationReceived, in: scope, at: now, EventContent(effectiveAt: now, detail: "\(number)"))
            ]
            return .commit(changes, ())
        }
    }

    /// More than are numbered in one transaction.
    @Test func `a reader sees all events that were committed, however many wait`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        try await Self.addTest(1, through: storage)
        _ = try await storage.marks()
        try database.psql(
            """
            INSERT INTO quittance.outbox (recorded_at, home, source, scope, version, place, kind, body)
            SELECT n, '', 1, (SELECT id FROM quittance.scopes), n, 0, 'customer.deleted', '{}'
            FROM generate_series(1, \(2 * EventSequencer.batch + 1)) AS n
            """)
        #expect(try await storage.marks().lastEvent == Int64(2 * EventSequencer.batch + 2))
        #expect(try database.psql("SELECT count(*) FROM quittance.outbox") == "0")
    }

    @Test func `merges and deletions of the same customers by three servers all end, and leave nobody twice`()
        async throws
    {
        let database = try TestPostgres.database()
        var servers: [Ledger] = []
        for _ in 0..<3 { servers.append(Ledger(storage: try await database.storage())) }
        let (ledgers, scope) = (servers, TroubleTests.scope)
        let ids = (0..<5).map { "customer \($0)" }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<90 {
                group.addTask {
                    let (ledger, id, other) = (ledgers[number % 3], ids[number % 5], ids[number * 7 / 5 % 5])
                    let now = Timestamp(milliseconds: Int64(number))
                    switch number % 4 {
                    case 0: _ = try await ledger.delete(id, in: scope, at: now)
                    case 1: _ = try await ledger.recordConsent(true, of: id, in: scope, at: now)
                    default: _ = try await ledger.addAlias(other, to: id, in: scope, at: now)
                    }
                }
            }
            try await group.waitForAll()
        }
        // Each row of a customer has all of its ids, and no row is left over.
        let wrong = try database.psql(
            """
            SELECT count(*) FROM quittance.customers AS c WHERE NOT home = ANY (ids) OR cardinality(ids) <> (
                SELECT count(*) FROM quittance.customers AS d WHERE d.number = c.number AND d.ids = c.ids)
            """)
        #expect(wrong == "0")
    }

    @Test func `an event that was numbered and stays in the outbox is not numbered again`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        for number in 0..<3 { try await TroubleTests.add(number, to: 0, through: storage) }
        try database.psql("CREATE TABLE kept AS SELECT * FROM quittance.outbox")
        let first = try await storage.events(of: TroubleTests.scope.bundleId, after: nil, limit: 10)
        // As if the server had ended before it could delete them.
        try database.psql("ALTER TABLE kept DROP COLUMN added; INSERT INTO quittance.outbox SELECT * FROM kept")
        try await TroubleTests.add(3, to: 0, through: storage)
        let second = try await storage.events(of: TroubleTests.scope.bundleId, after: nil, limit: 10)
        #expect(first.events.map(\.content?.detail) == ["1", "2", "3"])
        #expect(second.events.map(\.content?.detail) == ["1", "2", "3", "4"])
        #expect(Array(second.events.map(\.cursor).prefix(3)) == first.events.map(\.cursor))
        #expect(try database.psql("SELECT count(*) FROM quittance.outbox") == "0")
    }

    @Test func `no statement is cancelled, since a cancel request could meet another one`() throws {
        let database = try TestPostgres.database()
        let options = try PostgresSettings(database.server.address(database.name)).options()
        let connection = try PostgresConnection(options, usesNames: true, clock: Self.clock)
        let sleep = PostgresRequest.transaction([PostgresStatement("SELECT pg_sleep(3600)::text")])
        let left = """
            FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'
            AND datname = current_database() AND pid <> pg_backend_pid()
            """
        connection.begin([sleep])
        while try database.psql("SELECT count(*) \(left)") == "0" { continue }
        let results = connection.end(.late)
        guard case .failure(.late) = results[0] else { throw LedgerStorageError(.unavailable, "\(results)") }
        #expect(try database.psql("SELECT count(*) \(left)") == "1")
        try database.psql("SELECT count(pg_terminate_backend(pid)) \(left)")
    }

    @Test func `a database that never answers is asked by few connections, and all callers get an answer`()
        async throws
    {
        let (silent, width, callers) = (try SilentServer(), 2, 500)
        var settings = PostgresSettings("host=\(silent.folder) connect_timeout=1")
        settings.connections = width
        let pool = try ConnectionPool(settings, hosts: settings.hosts(), clock: Self.clock)
        let start = Self.clock.now
        let messages = await withTaskGroup(of: String.self) { group in
            for _ in 0..<callers {
                group.addTask {
                    do {
                        _ = try await pool.run(.transaction([PostgresStatement("SELECT 1")]))
                        return "answered"
                    } catch {
                        return (error as? PostgresFailure)?.message ?? "\(error)"
                    }
                }
            }
            return await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
        }
        #expect(messages.values.reduce(0, +) == callers)
        #expect(messages["answered"] == nil)
        // After the first failure there is a pause of a tenth of a second at least.
        let rounds = Int((Self.clock.now - start) / .milliseconds(100)) + 1
        #expect(silent.connections() <= width * rounds)
    }
}

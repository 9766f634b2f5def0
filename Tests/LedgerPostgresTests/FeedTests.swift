// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Foundation
import PurchaseLedger
import TestData
import TestPostgres
import TestProcess
import Testing

@testable import LedgerPostgres

/// Tests that followers get the events that have numbers, whatever keeps the server from numbering more, and that
/// numbering disturbs nobody.
@Suite(.needsPostgres, .timeLimit(.minutes(60))) struct FeedTests {
    private static let app = TroubleTests.scope.bundleId

    /// Puts events into the outbox, as commits of other servers do.
    private static func put(_ numbers: ClosedRange<Int>, into database: TestDatabase) throws {
        try database.psql(
            """
            INSERT INTO quittance.outbox (recorded_at, home, source, scope, version, place, kind, body)
            SELECT n, '', 1, (SELECT min(id) FROM quittance.scopes), n, 0, 'customer.deleted',
                   convert_to(format('{"effectiveAt":%1$s,"detail":"%1$s","before":null,"after":null}', n), 'UTF8')
            FROM generate_series(\(numbers.lowerBound), \(numbers.upperBound)) AS n
            """)
    }

    /// The database of a ledger with three events that have numbers, and a fourth that has none.
    private static func database(on server: TestPostgres? = nil) async throws -> TestDatabase {
        let database = try server?.database() ?? TestPostgres.database()
        let storage = try await database.storage()
        try await TroubleTests.add(0, to: 0, through: storage)
        _ = try await storage.marks()
        try put(2...3, into: database)
        #expect(try await details(storage).count == 3)
        storage.close()
        // It may be giving numbers just now.
        let sessions = """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND backend_type = 'client backend'
            """
        while try await aside({ try database.psql(sessions) }) != "1" { try await Task.sleep(for: .milliseconds(5)) }
        try put(4...4, into: database)
        return database
    }

    private static func details(_ storage: some LedgerStorage) async throws -> [String] {
        try await storage.events(of: app, after: nil, limit: 100).events.map { $0.content?.detail ?? "" }
    }

    @Test func `a start and a check read while others hold the counter, and give no numbers`() async throws {
        let database = try await Self.database()
        let holder = Task {
            // The test ends its session.
            _ = try? await aside {
                try database.psql("BEGIN; SELECT FROM quittance.counter FOR UPDATE; SELECT pg_sleep(3600)")
            }
        }
        let sleeping = "FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
        while try await aside({ try database.psql("SELECT count(*) \(sleeping)") }) != "1" {
            try await Task.sleep(for: .milliseconds(5))
        }
        let storage = try await database.storage()
        #expect(try await storage.apps() == [Self.app])
        try await Ledger(storage: storage).requireRoots(.apple)
        let checking = try await database.storage(upgrades: false) { $0.numbersEvents = false }
        for _ in 0..<3 { #expect(try await Self.details(checking) == ["1", "2", "3"]) }
        #expect(try await checking.marks().lastEvent == 3 && checking.condition.concern == nil)
        try database.psql("SELECT pg_terminate_backend(pid, 60000) \(sleeping)")
        await holder.value
        #expect(try await Self.details(checking) == ["1", "2", "3"])
        #expect(try await Self.details(storage) == ["1", "2", "3", "4"])
    }

    @Test func `a database that takes no writes answers the events that have numbers, again and again`() async throws {
        let database = try await Self.database()
        try database.psql("ALTER DATABASE \(database.name) SET default_transaction_read_only = on")
        let storage = try await database.storage(upgrades: false)
        let before = storage.requests.pool.epoch
        for _ in 0..<10 { #expect(try await Self.details(storage) == ["1", "2", "3"]) }
        // An attempt to write would end its connection.
        #expect(storage.requests.pool.epoch == before)
        // A document that is known, and so changes nothing.
        try await TroubleTests.add(0, to: 0, through: storage)
        try database.server.psql("postgres", "ALTER DATABASE \(database.name) RESET default_transaction_read_only")
        #expect(try await Self.details(try await database.storage()) == ["1", "2", "3", "4"])
    }

    @Test(.takesLong) func `a standby answers the events that have numbers`() async throws {
        let primary = try TestPostgres()
        let database = try await Self.database(on: primary)
        let standby = try TestPostgres(following: primary).existing(database)
        let storage = try await standby.storage()
        let before = storage.requests.pool.epoch
        for _ in 0..<3 { #expect(try await Self.details(storage) == ["1", "2", "3"]) }
        #expect(storage.requests.pool.epoch == before)
        try standby.server.promote()
        // Between them is ledger.restored.
        while try await Self.details(storage).last != "4" { try await Task.sleep(for: .milliseconds(5)) }
    }

    @Test(.takesLong) func `a standby acknowledges no document, also none that it has`() async throws {
        let primary = try TestPostgres()
        let database = try primary.database()
        try await TroubleTests.add(1, to: 1, through: database.storage())
        let standby = try TestPostgres(following: primary)
        let storage = try await standby.existing(database).storage()
        #expect(try await TroubleTests.numbers(in: storage)[1] == [1])
        await #expect(throws: LedgerStorageError.self) { try await TroubleTests.add(1, to: 1, through: storage) }
        try standby.promote()
    }

    /// A full disk, a statement that is ended, a lock that is not got, and another transaction that was faster.
    @Test(.takesLong, arguments: ["53100", "57014", "55P03", "40001"])
    func `if numbering fails, numbered events are answered, and the next reader tries again`(state: String) async throws
    {
        let database = try await Self.database()
        let storage = try await database.storage()
        try database.psql(
            """
            CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE EXCEPTION 'a test' USING ERRCODE = '\(state)'; END $$;
            CREATE TRIGGER fail BEFORE INSERT ON quittance.events FOR EACH ROW EXECUTE FUNCTION fail()
            """)
        #expect(storage.condition.concern == nil)
        for _ in 0..<2 { #expect(try await Self.details(storage) == ["1", "2", "3"]) }
        #expect(storage.condition.concern?.contains("a test") == true)
        await #expect(throws: LedgerStorageError.self) { try await storage.marks() }
        try database.psql("DROP TRIGGER fail ON quittance.events")
        #expect(try await Self.details(storage) == ["1", "2", "3", "4"])
        #expect(storage.condition.concern == nil)
    }

    @Test(.takesLong) func `if numbering fails, that is a concern before anybody reads, until it succeeds by itself`()
        async throws
    {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        try await TroubleTests.add(1, to: 1, through: storage)
        try database.psql("ALTER TABLE quittance.counter RENAME TO hidden")
        try await TroubleTests.add(2, to: 1, through: storage)
        while storage.condition.concern == nil { try await Task.sleep(for: .milliseconds(20)) }
        #expect(storage.condition.concern?.contains("New events get no numbers") == true)
        try database.psql("ALTER TABLE quittance.hidden RENAME TO counter")
        while storage.condition.concern != nil { try await Task.sleep(for: .milliseconds(20)) }
        #expect(try database.psql("SELECT count(*) FROM quittance.events") == "2")
    }

    /// Runs `body` while a transaction is open that has run some statements.
    private static func during(
        _ statements: [String], in database: TestDatabase, isSnapshot: Bool = false, _ body: () async throws -> Void
    ) async throws {
        let owner = try await database.storage { $0.connections = 1 }
        let sleep = "SELECT pg_sleep(3600)::text"
        let all = (statements + [sleep]).map { PostgresStatement.once($0) }
        let request =
            isSnapshot
            ? PostgresRequest.snapshot(all, limit: .seconds(3600)) : .transaction(all, limit: .seconds(3600))
        let holder = Task { try await owner.requests.pool.run(request) }
        let sleeping = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
        while try await aside({ try database.psql("SELECT count(*) \(sleeping)") }) == "0" {
            try await Task.sleep(for: .milliseconds(20))
        }
        try await body()
        try database.psql("SELECT pg_terminate_backend(pid, 60000) \(sleeping)")
        await #expect(throws: PostgresFailure.self) { try await holder.value }
    }

    private static let holdCounter = "SELECT last FROM quittance.counter WHERE id = 1 FOR UPDATE"

    @Test func `somebody who holds the counter keeps no reader from the events that have numbers`() async throws {
        let database = try await Self.database()
        let storage = try await database.storage { $0.limits.counter = .seconds(1) }
        try await Self.during([Self.holdCounter], in: database) {
            let details = try await Self.details(storage)
            #expect(details == ["1", "2", "3"])
            let activity = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            let waiting = try database.psql(activity + " AND wait_event_type = 'Lock'")
            #expect(waiting == "0")
        }
        #expect(try await Self.details(storage) == ["1", "2", "3", "4"])
    }

    @Test(.takesLong) func `events are answered only once a standby that commits wait for has them`() async throws {
        let server = try TestPostgres()
        let database = try await Self.database(on: server)
        let storage = try await database.storage()
        #expect(try await Self.details(storage).count == 4)
        try server.requireStandby()
        let reading = Task { try await Self.details(storage) }
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        while try server.psql("postgres", waiting) == "0" { try await Task.sleep(for: .milliseconds(5)) }
        try server.psql("postgres", "ALTER SYSTEM RESET synchronous_standby_names")
        try server.psql("postgres", "SELECT pg_reload_conf()")
        #expect(try await reading.value.count == 4)
    }

    @Test(.takesLong) func `numbering by several servers at once leaves no error in the database's log`() async throws {
        let server = try TestPostgres()
        let database = try await Self.database(on: server)
        let servers = [try await database.storage(), try await database.storage()]
        try await Self.during([Self.holdCounter], in: database) {
            for storage in servers { try await storage.feed.numberIfFree() }
            #expect(try database.psql("SELECT count(*) FROM quittance.outbox") == "1")
        }
        for round in 1...20 {
            try Self.put((round * 10)...(round * 10 + 9), into: database)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<8 { group.addTask { try await servers[number % 2].feed.numberIfFree() } }
                group.addTask { _ = try await Self.details(servers[0]) }
                try await group.waitForAll()
            }
        }
        #expect(try await servers[1].marks().lastEvent == 204)
        let log = try String(contentsOfFile: server.folder + "/data/log", encoding: .utf8)
        #expect(log.contains("ready to accept connections"))
        #expect(log.split(separator: "\n").filter { $0.contains("ERROR") } == [])
    }

    /// PostgreSQL removes a dead row only once no snapshot may need it.
    @Test(.takesLong)
    func `rows that a long snapshot keeps in the outbox are not read again for each page`() async throws {
        let server = try TestPostgres(loading: "pg_stat_statements")
        try server.psql("postgres", "CREATE EXTENSION pg_stat_statements")
        let database = try await Self.database(on: server)
        let storage = try await database.storage()
        try await Self.during(["SELECT count(*) FROM quittance.outbox"], in: database, isSnapshot: true) {
            try Self.put(10...10_009, into: database)
            let epoch = try await storage.events(of: Self.app, after: nil, limit: 1).next.epoch
            let end = EventCursor(10_004, epoch: epoch)
            _ = try await storage.marks()
            // The first page finds the outbox empty.
            _ = try await storage.events(of: Self.app, after: end, limit: 10)
            try server.psql("postgres", "SELECT pg_stat_statements_reset()")
            for number in 0..<20 {
                let page = try await storage.events(of: Self.app, after: end, limit: 100)
                #expect(page.events.count == number)
                try Self.put((20_000 + number)...(20_000 + number), into: database)
            }
            let blocks = try server.psql(
                "postgres",
                "SELECT max((shared_blks_hit + shared_blks_read) / calls), sum(calls) FROM pg_stat_statements "
                    + "WHERE query LIKE '%added BETWEEN%'")
            let found = blocks.split(separator: "|").compactMap { Int($0) }
            // The dead rows fill more than a hundred blocks.
            #expect(found.count == 2 && found[0] < 60 && found[1] >= 40, "\(blocks)")
        }
    }
}

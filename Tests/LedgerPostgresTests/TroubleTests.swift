// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization
import TestData
import TestPostgres
import Testing

@testable import LedgerPostgres

/// Tests what several servers on one database must bear.
@Suite(.needsPostgres, .timeLimit(.minutes(60))) struct TroubleTests {
    static let scope = LedgerScope(bundleId: "com.example", environment: .production)

    static func key(_ number: Int) -> ChainKey { ChainKey("\(2_000_000_000 + number)", in: scope) }

    /// Adds a document, an event and an entry in a chain; the decision is the same if it is made again.
    static func add(_ number: Int, to chain: Int, through storage: PostgresLedgerStorage) async throws {
        let evidence = Evidence(.receipt, Array("\(number)".utf8), scope, nil) { _ in ([], []) }
        let query = LedgerQuery([.chain(key(chain)), .document(evidence.provenance)])
        let time = Timestamp(milliseconds: Int64(number))
        try await storage.commit(query) { snapshot in
            var changes = LedgerChanges()
            guard !snapshot.names.contains(evidence.provenance) else { return .commit(changes, ()) }
            var record = snapshot.chains[key(chain)] ?? ChainRecord(key(chain))
            record.ownerChanges.append(time)
            let place = record.ownerChanges.count
            changes.chains = [record]
            changes.documents = [NewDocument(evidence, for: [key(chain)], receivedAt: time)]
            changes.events = [
                LedgerEvent(
                    .purchased, in: scope, at: Timestamp(milliseconds: 0), chainName: key(chain).name,
                    EventContent(effectiveAt: Timestamp(milliseconds: 0), detail: "\(place)"))
            ]
            return .commit(changes, ())
        }
    }

    /// Three servers write to four chains while all connections are cut again and again, also during their commits, and
    /// five readers follow.
    @Test(.takesLong) func `nothing acknowledged is lost or doubled, and no reader skips an event`() async throws {
        let database = try TestPostgres.database()
        var servers: [PostgresLedgerStorage] = []
        for _ in 0..<3 { servers.append(try await database.storage { $0.connections = 3 }) }
        let (all, progress) = (servers, Progress())
        let feeds = try await withThrowingTaskGroup(of: [LedgerEvent].self) { group in
            for reader in 0..<5 {
                group.addTask { try await Self.follow(all[reader % 3]) { progress.isOver.withLock { $0 } } }
            }
            await withTaskGroup(of: Void.self) { writers in
                for number in 0..<240 {
                    writers.addTask {
                        guard (try? await Self.add(number, to: number % 4, through: all[number % 3])) != nil else {
                            return
                        }
                        _ = progress.acknowledged.withLock { $0.insert(number) }
                    }
                }
                writers.addTask {
                    for _ in 0..<10 {
                        let cut = try? database.psql(
                            """
                            SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                            WHERE datname = current_database() AND pid <> pg_backend_pid()
                            """)
                        progress.cuts.withLock { $0 += cut.flatMap { Int($0) } ?? 0 }
                    }
                }
            }
            progress.isOver.withLock { $0 = true }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        let found = try await Self.numbers(in: servers[0])
        let acknowledged = progress.acknowledged.withLock { $0 }
        #expect(acknowledged.isSubset(of: found.flatMap { $0 }))
        #expect(!acknowledged.isEmpty && progress.cuts.withLock { $0 } > 0)
        #expect(Set(found.flatMap { $0 }).count == found.flatMap { $0 }.count)
        for feed in feeds {
            let chains = Dictionary(grouping: feed) { $0.originalTransactionId }
            for (number, entries) in found.enumerated() {
                let details = chains[Self.key(number).originalTransactionId]?.map(\.content?.detail) ?? []
                #expect(details == entries.indices.map { "\($0 + 1)" })
            }
        }
    }

    private final class Progress: Sendable {
        let isOver = Mutex(false)
        let acknowledged = Mutex(Set<Int>())
        let cuts = Mutex(0)
    }

    static func numbers(in storage: PostgresLedgerStorage) async throws -> [[Int]] {
        let keys = (0..<4).map { key($0) }
        let chains = try await storage.load(LedgerQuery(keys.map(LedgerKey.chain))).chains
        return keys.map { chains[$0]?.ownerChanges.map { Int($0.milliseconds) } ?? [] }
    }

    /// All events, page by page, until the writers are done and no more come. A page that fails is asked for again.
    private static func follow(
        _ storage: PostgresLedgerStorage, until isOver: @Sendable () -> Bool
    ) async throws -> [LedgerEvent] {
        var (events, cursor) = ([LedgerEvent](), EventCursor?.none)
        while true {
            let isLast = isOver()
            try await Task.sleep(for: .milliseconds(1))
            guard let page = try? await storage.events(of: scope.bundleId, after: cursor, limit: 7) else { continue }
            events += page.events
            cursor = page.next
            if page.events.isEmpty, isLast { return events }
        }
    }

    @Test func `many servers that start at once make the tables once`() async throws {
        let database = try TestPostgres.database()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask { try await database.storage { $0.connections = 1 }.proveWritable() }
            }
            try await group.waitForAll()
        }
        #expect(try database.psql("SELECT version FROM quittance.schema_version") == "\(Schema.steps.version)")
    }

    @Test(arguments: [
        ("UPDATE quittance.schema_version SET version = 99", "newer version"),
        ("DELETE FROM quittance.schema_version", "lost its version"),
    ]) func `a ledger of a newer or unknown version is refused, and not changed`(
        change: String, reason: String
    ) async throws {
        let database = try TestPostgres.database()
        _ = try await database.storage()
        try database.psql(change)
        let tables = "SELECT count(*), (SELECT max(version) FROM quittance.schema_version) FROM pg_class"
        let before = try database.psql(tables)
        await #expect {
            try await database.storage()
        } throws: { error in
            let error = error as? LedgerStorageError
            return error?.code == .damaged && error?.message.contains(reason) == true
        }
        #expect(try database.psql(tables) == before)
    }

    @Test func `a ledger that is missing is made only if that is wanted`() async throws {
        let database = try TestPostgres.database()
        await #expect {
            try await database.storage(upgrades: false)
        } throws: { error in
            (error as? LedgerStorageError)?.code == .readOnly
        }
        #expect(try database.psql("SELECT count(*) FROM pg_tables WHERE schemaname IN ('public', 'quittance')") == "0")
        _ = try await database.storage()
        #expect(try await database.storage(upgrades: false).documentCount() == 0)
    }

    @Test func `a commit with a warning is not acknowledged`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        // PostgreSQL warns if the wait for a standby was cancelled. A deferred trigger warns at the same place.
        try database.psql(
            """
            CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE WARNING 'no standby'; RETURN NULL; END $$;
            CREATE CONSTRAINT TRIGGER warn AFTER INSERT ON quittance.chains DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION warn()
            """)
        await #expect(throws: LedgerStorageError.self) { try await Self.add(1, to: 1, through: storage) }
    }

    @Test(.takesLong, arguments: [1, 16])
    func `a database that takes no writes is reported as such, after few connections`(atOnce: Int) async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        for number in 0..<4 { try await Self.add(number, to: number, through: storage) }
        try database.psql("ALTER DATABASE \(database.name) SET default_transaction_read_only = on")
        try database.psql(
            """
            SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()
            """)
        let before = storage.requests.pool.epoch
        for round in 0..<(32 / atOnce) {
            await withTaskGroup(of: Void.self) { group in
                for place in 0..<atOnce {
                    let number = 10 + round * atOnce + place
                    group.addTask {
                        await #expect {
                            try await Self.add(number, to: number % 4, through: storage)
                        } throws: { error in
                            (error as? LedgerStorageError)?.code == .readOnly
                        }
                    }
                }
            }
        }
        // One for each attempt of each work, and those that the psql above has ended.
        let attempts = 1 + RepeatedRequests.maxLosses
        #expect(storage.requests.pool.epoch - before <= 32 * attempts + 8)
        try database.server.psql("postgres", "ALTER DATABASE \(database.name) RESET default_transaction_read_only")
        try await Self.add(99, to: 0, through: storage)
    }

    @Test(.takesLong) func `a request that waits too long for a lock leaves no session waiting`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        try await Self.add(1, to: 1, through: storage)
        let waiting = """
            SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
            """
        let owner = try await database.storage { $0.connections = 1 }
        // Nothing else is locked in between.
        let lock = PostgresStatement("LOCK TABLE quittance.chains IN ACCESS EXCLUSIVE MODE")
        let sleep = PostgresStatement("SELECT pg_sleep(3600)::text")
        let holder = Task { try await owner.requests.pool.run(.transaction([lock, sleep], limit: .seconds(3600))) }
        let held = """
            SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted
            AND relation = 'quittance.chains'::regclass
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            """
        while try database.psql(held) == "0" { try await Task.sleep(for: .milliseconds(5)) }
        await #expect(throws: LedgerStorageError.self) { try await Self.add(2, to: 1, through: storage) }
        #expect(try database.psql(waiting) == "0")
        try database.psql(
            """
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND query LIKE 'SELECT pg_sleep(3600)%'
            """)
        await #expect(throws: PostgresFailure.self) { try await holder.value }
        try await Self.add(2, to: 1, through: storage)
    }

    @Test(.takesLong)
    func `a database that ends what takes too long is reported as unavailable, for all works of a group`()
        async throws
    {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        try await Self.add(1, to: 1, through: storage)
        try database.psql("ALTER DATABASE \(database.name) SET statement_timeout = '2s'")
        let slow = try await database.storage { $0.connections = 2 }
        try database.psql(
            """
            CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN PERFORM pg_sleep(3600); RETURN NULL; END $$;
            CREATE TRIGGER wait AFTER UPDATE ON quittance.chains FOR EACH ROW EXECUTE FUNCTION wait()
            """)
        await #expect {
            try await Self.add(2, to: 1, through: slow)
        } throws: { error in
            (error as? LedgerStorageError)?.message.contains("57014") == true
        }
        try database.psql("DROP TRIGGER wait ON quittance.chains")
        try await Self.add(2, to: 1, through: storage)
        try database.psql("ALTER DATABASE \(database.name) RESET statement_timeout")
    }

    /// A primary that comes back from a standby does not know the last commits, and gives their numbers again.
    @Test func `what a server remembers of the database ends with its connections`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        func number(_ id: String) async throws -> Int64? {
            let key = CustomerID(id, of: Self.scope.bundleId)
            return try await storage.commit(LedgerQuery([.customerID(key)])) { snapshot in
                .commit(LedgerChanges(), snapshot.newNumbers[key])
            }
        }
        #expect(try await number("one") == 1)
        try database.psql(
            """
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid();
            UPDATE quittance.counter SET last = 5000 WHERE id = 2
            """)
        #expect(try await number("two") == 5001)
    }

    /// Servers that knew the lost commits must not use their numbers: others are given the same.
    @Test(.takesLong, arguments: TestBouncer.isThere ? [false, true] : [false])
    func `after a failover that lost commits no number stands for two customers or two apps`(
        isPooled: Bool
    ) async throws {
        let database = try TestPostgres.database()
        func add(_ id: String, of bundleId: String, through storage: PostgresLedgerStorage) async throws {
            let key = CustomerID(id, of: bundleId)
            try await storage.commit(LedgerQuery([.customerID(key)])) { snapshot in
                var changes = LedgerChanges()
                guard let number = snapshot.newNumbers[key] else { return .commit(changes, ()) }
                let customer = Customer(number: number, bundleId: bundleId)
                changes.customers = [CustomerRecord(customer, ids: [id], isEstablished: true)]
                return .commit(changes, ())
            }
        }
        let first = try await database.storage()
        try await add("first", of: "com.example", through: first)
        first.close()
        // The standby, with all that is committed so far.
        let standby = "\(database.name)_standby"
        try database.server.psql("postgres", "CREATE DATABASE \(standby) TEMPLATE \(database.name)")
        var servers = [try await database.storage(), try await database.storage()]
        let bouncer = isPooled ? try TestBouncer(before: database) : nil
        if let bouncer {
            var settings = PostgresSettings("host=\(bouncer.folder) user=postgres dbname=\(database.name)")
            settings.preparesStatements = false
            servers[0] = try await PostgresLedgerStorage(
                settings, clock: ContinuousClock(), random: SystemRandomNumberGenerator())
        }
        try await add("lost", of: "com.example", through: servers[0])
        try await add("lost", of: "com.lost", through: servers[0])
        try database.server.psql(
            "postgres",
            """
            SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '\(database.name)';
            ALTER DATABASE \(database.name) RENAME TO \(database.name)_primary;
            ALTER DATABASE \(standby) RENAME TO \(database.name)
            """)
        try await add("a", of: "com.example", through: servers[1])
        try await add("b", of: "com.other", through: servers[1])
        let stranger = CustomerID("b", of: "com.lost")
        #expect(try await servers[0].load(LedgerQuery([.customerID(stranger)])).customers.isEmpty)
        try await add("c", of: "com.example", through: servers[0])
        try await add("d", of: "com.lost", through: servers[0])
        #expect(
            try database.psql(
                "SELECT ids[1], bundle_id FROM quittance.customers JOIN quittance.apps ON app = apps.id ORDER BY ids[1]"
            )
                == """
                a|com.example
                b|com.other
                c|com.example
                d|com.lost
                first|com.example
                """)
        #expect(try database.psql("SELECT count(DISTINCT number) FROM quittance.customers") == "5")
    }

    /// Statements are then run on connections that others have prepared theirs on.
    @Test(.enabled(if: TestBouncer.isThere, "\(TestBouncer.whyNot)"))
    func `a pooler that keeps no prepared statements gives no wrong answer`() async throws {
        let database = try TestPostgres.database()
        let direct = try await database.storage()
        for number in 0..<8 { try await Self.add(number, to: number % 4, through: direct) }
        let bouncer = try TestBouncer(before: database)
        let settings = PostgresSettings("host=\(bouncer.folder) user=postgres dbname=\(database.name)")
        let servers = await withTaskGroup(of: PostgresLedgerStorage?.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    try? await PostgresLedgerStorage(
                        settings, clock: ContinuousClock(), random: SystemRandomNumberGenerator())
                }
            }
            return await group.reduce(into: []) { $0 += [$1].compactMap { $0 } }
        }
        try #require(!servers.isEmpty)
        let expected = try await Self.numbers(in: direct)
        let failures = await withTaskGroup(of: String?.self) { group in
            for number in 0..<200 {
                group.addTask {
                    let server = servers[number % servers.count]
                    do {
                        if number % 2 == 0 {
                            #expect(try await Self.numbers(in: server) == expected)
                        } else {
                            #expect(try await server.records(RecordSelection(), limit: 1) == [])
                            try await server.proveWritable()
                        }
                        return nil
                    } catch {
                        return "\(error)"
                    }
                }
            }
            return await group.reduce(into: Set<String>()) { $0.formUnion([$1].compactMap { $0 }) }
        }
        for failure in failures where failure.contains("26000") {
            #expect(failure.contains("prepared_statements=false"))
        }
    }

    @Test func `a database that is away is reported as unavailable`() async throws {
        let settings = PostgresSettings("host=/nonexistent dbname=a")
        await #expect {
            _ = try await PostgresLedgerStorage(
                settings, clock: ContinuousClock(), random: SystemRandomNumberGenerator())
        } throws: { error in
            (error as? LedgerStorageError)?.code == .unavailable
        }
    }
}

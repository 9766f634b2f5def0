// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import PurchaseLedger
import Synchronization
import TestData
import TestPostgres
import TestProcess
import Testing

@testable import LedgerPostgres

/// Tests that requests that are given up leave no sessions behind, and that a request that waits for a lock delays no
/// other.
@Suite(.needsPostgres, .timeLimit(.minutes(60))) struct SessionTests {
    private static let clock = ContinuousClock()

    private static let sleep = PostgresStatement("SELECT pg_sleep(3600)::text")

    /// The sessions of clients in a database, other than the one that asks.
    private static let sessions = """
        SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND backend_type = 'client backend'
        """

    private static let sleepers = """
        SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'
        """

    private static let asleep = "SELECT count(*) FROM (\(sleepers)) AS sleepers"

    /// Waits until SQL answers a text.
    private static func wait(for answer: String, to sql: String, in database: TestDatabase) async throws {
        while try await aside({ try database.psql(sql) }) != answer { try await Task.sleep(for: .milliseconds(20)) }
    }

    // MARK: - Sessions

    @Test(arguments: TestBouncer.isThere ? [false, true] : [false])
    func `requests that are given up end in the database, with all that was sent behind them`(
        isPooled: Bool
    ) async throws {
        let database = try TestPostgres.database()
        let bouncer = isPooled ? try TestBouncer(before: database) : nil
        var settings = PostgresSettings(
            bouncer.map { "host=\($0.folder) user=postgres dbname=\(database.name)" }
                ?? database.server.address(database.name))
        settings.preparesStatements = !isPooled
        (settings.connections, settings.limits.request) = (1, .milliseconds(100))
        let pool = try ConnectionPool(settings, clock: Self.clock)
        // Each would run for an hour, one after another.
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<12 {
                group.addTask {
                    await #expect(throws: PostgresFailure.self) { try await pool.run(.transaction([Self.sleep])) }
                }
            }
        }
        try await Self.wait(for: "0", to: Self.asleep, in: database)
        if !isPooled { try await Self.wait(for: "0", to: Self.sessions, in: database) }
    }

    @Test(.takesLong) func `a connection that is given up keeps its place until its session has ended`() async throws {
        let database = try TestPostgres.database()
        var settings = PostgresSettings(database.server.address(database.name))
        (settings.connections, settings.limits.request) = (4, .milliseconds(100))
        let pool = try ConnectionPool(settings, clock: Self.clock)
        let counts = Counts()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    for _ in 0..<5 { _ = try? await pool.run(.transaction([Self.sleep])) }
                }
            }
            group.addTask {
                for _ in 0..<40 {
                    counts.see(try await aside { Int(try database.psql(Self.sessions)) ?? 0 })
                }
            }
            try await group.waitForAll()
        }
        #expect(counts.found.most > 0)
        // One that was closed may still be seen to end.
        #expect(counts.found.most <= 4 + 2)
    }

    /// Three servers behind a lock on a table. With QUITTANCE_SOAK=1 for a minute, with the limits of a server.
    @Test(.takesLong)
    func `behind a table lock servers keep few sessions, others connect, and later all goes on`() async throws {
        let isSoak = ProcessInfo.processInfo.environment["QUITTANCE_SOAK"] != nil
        let server = try TestPostgres()
        let database = try server.database()
        var limits = PostgresLimits()
        if !isSoak {
            limits.request = .milliseconds(400)
            (limits.statement, limits.lock) = (.milliseconds(360), .milliseconds(120))
            (limits.sharedRead, limits.sharedLock) = (.milliseconds(120), .milliseconds(20))
            (limits.group, limits.readAlone) = (.milliseconds(200), .milliseconds(200))
        }
        let all = limits
        var servers: [PostgresLedgerStorage] = []
        for _ in 0..<3 { servers.append(try await database.storage { $0.limits = all }) }
        for number in 0..<4 { try await TroubleTests.add(number, to: number, through: servers[0]) }
        let (loaded, counts) = (servers, Counts())
        try await withThrowingTaskGroup(of: Void.self) { group in
            for client in 0..<60 {
                group.addTask {
                    var number = 1000 * (client + 1)
                    while !counts.found.isOver {
                        number += 1
                        do {
                            try await TroubleTests.add(number, to: number % 50, through: loaded[client % 3])
                            counts.all.withLock { $0.answered += 1 }
                        } catch {
                            #expect((error as? LedgerStorageError)?.code == .unavailable, "\(error)")
                            counts.all.withLock { $0.refused += 1 }
                            try await Task.sleep(for: .milliseconds(20))
                        }
                    }
                }
            }
            let holder = try await database.storage { $0.connections = 1 }
            let lock = PostgresStatement.once("LOCK TABLE quittance.chains IN ACCESS EXCLUSIVE MODE")
            let hold = PostgresStatement("SELECT pg_sleep(\(isSoak ? 60 : 5))::text")
            group.addTask {
                defer { counts.all.withLock { $0.isOver = true } }
                _ = try await holder.requests.pool.run(.transaction([lock, hold], limit: .seconds(3600)))
            }
            group.addTask {
                while !counts.found.isOver {
                    counts.see(try await aside { Int(try database.psql(Self.sessions)) ?? 0 })
                    try await Task.sleep(for: .milliseconds(50))
                }
            }
            try await group.waitForAll()
        }
        // Without the session that holds the lock.
        let found = counts.found
        print("Sessions of three servers: \(found.most - 1) at most; \(found)")
        #expect(found.refused > 0 && found.looks > 0)
        #expect(found.most - 1 <= 3 * 12)
        for number in 0..<3 { try await TroubleTests.add(number + 10, to: number, through: servers[number]) }
    }

    // MARK: - Limits

    @Test func `a session has limits of its own, unless the operator has set lower ones`() async throws {
        let database = try TestPostgres.database()
        func limits() async throws -> [String] {
            let pool = try ConnectionPool(PostgresSettings(database.server.address(database.name)), clock: Self.clock)
            defer { pool.close() }
            let names = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"]
            let columns = names.map { "current_setting('\($0)')" }.joined(separator: ", ")
            let rows = try await pool.run(.snapshot([.once("SELECT \(columns)")]))
            return try rows[0].map { row in try names.map { _ in try row.next(String.self) } }[0]
        }
        #expect(try await limits() == ["9s", "3s", "9s"])
        try database.psql("ALTER DATABASE \(database.name) SET statement_timeout = '5s'")
        try database.psql("ALTER DATABASE \(database.name) SET lock_timeout = '1min'")
        #expect(try await limits() == ["5s", "3s", "9s"])
    }

    @Test(.enabled(if: TestBouncer.isThere, "\(TestBouncer.whyNot)"))
    func `the sessions of a pooler get no limits, since others use them too`() async throws {
        let database = try TestPostgres.database()
        let bouncer = try TestBouncer(before: database)
        let pool = try ConnectionPool(
            PostgresSettings("host=\(bouncer.folder) user=postgres dbname=\(database.name)"), clock: Self.clock)
        for _ in 0..<10 {
            let rows = try await pool.run(.snapshot([.once("SELECT current_setting('statement_timeout')")]))
            #expect(try rows[0].map { try $0.next(String.self) } == ["0"])
        }
        #expect(pool.session?.isPooled == true)
    }

    @Test func `a request that may take longer than others is not ended earlier`() async throws {
        let database = try TestPostgres.database()
        var settings = PostgresSettings(database.server.address(database.name))
        settings.limits.statement = .milliseconds(50)
        let pool = try ConnectionPool(settings, clock: Self.clock)
        let slow = PostgresStatement("SELECT pg_sleep(0.3)::text")
        await #expect {
            try await pool.run(.transaction([slow]))
        } throws: { error in
            (error as? PostgresFailure)?.isTimeout == true
        }
        #expect(try await pool.run(.transaction([slow], limit: .seconds(60))).count == 1)
        #expect(try await pool.run(.snapshot([slow, slow], limit: .seconds(60))).count == 2)
    }

    // MARK: - Groups

    /// As many as an App Store sends at once.
    @Test func `a locked row fails the works that need it, and no other of their group`() async throws {
        let database = try TestPostgres.database()
        // However long the first attempt takes.
        let storage = try await database.storage { $0.limits.group = .seconds(3600) }
        for chain in 0..<20 { try await TroubleTests.add(chain, to: chain, through: storage) }
        let holder = try await database.storage { $0.connections = 1 }
        let lock = PostgresStatement(
            "SELECT home FROM quittance.chains WHERE home = $1 FOR UPDATE", [.text(TroubleTests.key(7).name)])
        let holding = Task {
            try await holder.requests.pool.run(.transaction([lock, Self.sleep], limit: .seconds(3600)))
        }
        try await Self.wait(for: "1", to: Self.asleep, in: database)
        let failures = Failures()
        await storage.run((0..<20).map { Self.work(on: $0, failures) })
        #expect(failures.found.keys.sorted() == [7], "\(failures.found)")
        #expect(failures.found[7]?.contains("55P03") == true)
        try database.psql("SELECT pg_terminate_backend(pid) FROM (\(Self.sleepers)) AS sleepers")
        _ = try? await holding.value
        try await TroubleTests.add(1007, to: 7, through: storage)
    }

    /// A work that adds an entry to a chain.
    private static func work(on chain: Int, _ failures: Failures) -> PendingCommit {
        let key = TroubleTests.key(chain)
        return PendingCommit(LedgerQuery([.chain(key)])) { snapshot in
            var (changes, record) = (LedgerChanges(), snapshot.chains[key] ?? ChainRecord(key))
            record.ownerChanges.append(Timestamp(milliseconds: 1))
            changes.chains = [record]
            return .commit(changes, ())
        } answer: { (result: Result<Void, any Error>) in
            failures.add(chain, result)
        }
    }

    @Test(.takesLong) func `a load that takes too long fails no other of its group`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage {
            ($0.limits.sharedRead, $0.limits.group) = (.milliseconds(100), .seconds(3600))
        }
        for chain in 0..<8 { try await TroubleTests.add(chain, to: chain, through: storage) }
        // Only a look at records waits.
        let holder = try await database.storage { $0.connections = 1 }
        let lock = PostgresStatement.once("LOCK TABLE quittance.records IN ACCESS EXCLUSIVE MODE")
        let holding = Task {
            try await holder.requests.pool.run(.transaction([lock, Self.sleep], limit: .seconds(3600)))
        }
        try await Self.wait(for: "1", to: Self.asleep, in: database)
        let failures = Failures()
        let key = RecordKey(RecordKind(rawValue: "k"), "n", of: .scope(TroubleTests.scope))
        let loads = (0..<8).map { number in
            let keys: [LedgerKey] = [.chain(TroubleTests.key(number))] + (number == 3 ? [.record(key)] : [])
            return WaitingLoad(query: LedgerQuery(keys)) { failures.add(number, $0) }
        }
        await storage.answer(loads)
        #expect(failures.found.keys.sorted() == [3], "\(failures.found)")
        try database.psql("SELECT pg_terminate_backend(pid) FROM (\(Self.sleepers)) AS sleepers")
        _ = try? await holding.value
    }
}

/// What clients and an onlooker have seen.
private final class Counts: Sendable {
    struct Seen {
        var (answered, refused) = (0, 0)
        /// The most sessions, and how often they were counted.
        var (most, looks) = (0, 0)
        var isOver = false
    }

    let all = Mutex(Seen())

    var found: Seen { all.withLock { $0 } }

    func see(_ sessions: Int) { all.withLock { ($0.most, $0.looks) = (max($0.most, sessions), $0.looks + 1) } }
}

/// The failures of works or loads, by their numbers.
private final class Failures: Sendable {
    private let all = Mutex<[Int: String]>([:])

    func add(_ number: Int, _ result: Result<some Any, any Error>) {
        if case .failure(let error) = result { all.withLock { $0[number] = "\(error)" } }
    }

    var found: [Int: String] { all.withLock { $0 } }
}

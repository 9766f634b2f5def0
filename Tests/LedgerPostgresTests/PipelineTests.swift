// SPDX-License-Identifier: Apache-2.0

import Foundation
import PurchaseLedger
import TestData
import TestPostgres
import Testing

@testable import LedgerPostgres

/// Tests the pitfalls of pipelines on a real server.
@Suite(.needsPostgres) struct PipelineTests {
    private static let clock = ContinuousClock()

    private static func connection(_ database: TestDatabase, named: Bool = true) throws -> PostgresConnection {
        let options = try PostgresSettings(database.server.address(database.name)).options()
        return try PostgresConnection(options, usesNames: named, clock: clock)
    }

    private static var soon: ContinuousClock.Instant { clock.now.advanced(by: .seconds(300)) }

    private static func integers(_ result: Result<[PostgresRows], PostgresFailure>) throws -> [Int64] {
        try result.get().flatMap { try $0.map { try $0.next(Int64.self) } }
    }

    @Test(.takesLong, arguments: [true, false])
    func `both sides send much more than any buffer holds`(named: Bool) throws {
        let connection = try Self.connection(try TestPostgres.database(), named: named)
        let large = [UInt8](repeating: 7, count: 1 << 20)
        let requests = (0..<40).map { number in
            PostgresRequest.transaction([
                PostgresStatement("SELECT $1::bytea, $2::bigint", [.bytes(large), .integer(number)])
            ])
        }
        let results = connection.run(requests, deadline: Self.soon)
        for (number, result) in results.enumerated() {
            #expect(try result.get().first?.rows == [[.bytes(large), .integer(Int64(number))]])
        }
    }

    @Test(arguments: [true, false]) func `the error of one request changes no other`(named: Bool) throws {
        let connection = try Self.connection(try TestPostgres.database(), named: named)
        let texts = ["SELECT 1::bigint", "SELECT 1::bigint / 0", "SELECT 2::bigint", "no SQL", "SELECT 3::bigint"]
        let requests = texts.map { PostgresRequest.transaction([PostgresStatement($0)]) }
        for _ in 0..<2 {
            let results = connection.run(requests, deadline: Self.soon)
            #expect(results.map { try? Self.integers($0) } == [[1], nil, [2], nil, [3]])
            #expect(connection.isUsable)
        }
    }

    @Test func `a transaction that fails leaves nothing, and its connection usable`() async throws {
        let database = try TestPostgres.database()
        try database.psql("CREATE TABLE t (a bigint PRIMARY KEY)")
        let connection = try Self.connection(database)
        let insert = { PostgresStatement("INSERT INTO t (a) VALUES ($1)", [.integer($0)]) }
        let results = connection.run([.transaction([insert(1), insert(1), insert(2)])], deadline: Self.soon)
        guard case .failure(let failure) = results[0] else { throw LedgerStorageError(.unavailable, "\(results)") }
        #expect(failure.isConflict)
        #expect(connection.isUsable)
        #expect(try database.psql("SELECT count(*) FROM t") == "0")
        _ = try connection.run([.transaction([insert(1), insert(2)])], deadline: Self.soon)[0].get()
        #expect(try database.psql("SELECT count(*) FROM t") == "2")
    }

    /// A statement outside a block is answered first and committed then.
    @Test(arguments: [true, false]) func `a statement whose commit fails has failed`(named: Bool) throws {
        let database = try TestPostgres.database()
        try database.psql("CREATE TABLE t (a bigint UNIQUE DEFERRABLE INITIALLY DEFERRED)")
        let connection = try Self.connection(database, named: named)
        let requests = ([1, 1, 2] as [Int64]).map {
            PostgresRequest.transaction([PostgresStatement("INSERT INTO t (a) VALUES ($1)", [.integer($0)])])
        }
        let states = connection.run(requests, deadline: Self.soon).map { result in
            if case .failure(.refused(let state, _)) = result { state } else { "" }
        }
        #expect(states == ["", "23505", ""])
        #expect(try database.psql("SELECT count(*) FROM t") == "2")
    }

    @Test func `requests after a transaction that failed do not run`() throws {
        let database = try TestPostgres.database()
        try database.psql("CREATE TABLE t (a bigint PRIMARY KEY)")
        let connection = try Self.connection(database)
        let insert = { PostgresStatement("INSERT INTO t (a) VALUES ($1)", [.integer($0)]) }
        let requests = [[insert(1), insert(1)], [insert(2), insert(3)], [insert(4)]].map {
            PostgresRequest.transaction($0)
        }
        let states = connection.run(requests, deadline: Self.soon).map { result in
            if case .failure(.refused(let state, _)) = result { state } else { "" }
        }
        #expect(states == ["23505", "25P02", "25P02"])
        #expect(try database.psql("SELECT count(*) FROM t") == "0")
        #expect(connection.isUsable)
    }

    @Test func `requests that are sent together are answered each, also after one that failed`() async throws {
        let database = try TestPostgres.database()
        try database.psql("CREATE TABLE t (a bigint PRIMARY KEY)")
        var settings = PostgresSettings(database.server.address(database.name))
        settings.connections = 1
        let pool = try ConnectionPool(settings, clock: Self.clock)
        let inserted = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<60 as Range<Int64> {
                let insert = PostgresStatement("INSERT INTO t (a) VALUES ($1)", [.integer(number / 2)])
                let look = PostgresStatement("SELECT $1::bigint", [.integer(number)])
                group.addTask { (try? await pool.run(.transaction([insert, look]))) != nil }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(inserted == 30)
        #expect(try database.psql("SELECT count(*) FROM t") == "30")
    }

    @Test func `there are never more connections than allowed, whenever requests arrive`() async throws {
        let database = try TestPostgres.database()
        var settings = PostgresSettings(database.server.address(database.name))
        settings.connections = 3
        let pool = try ConnectionPool(settings, clock: Self.clock)
        for count in Array(repeating: [1, 2, 5, 1, 9], count: 40).joined() {
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<count {
                    group.addTask { _ = try? await pool.run(.transaction([PostgresStatement("SELECT 1::bigint")])) }
                }
            }
        }
        let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = '\(database.name)'"
        #expect(try #require(Int(try database.server.psql("postgres", open))) <= 3)
        pool.close()
    }

    @Test func `a server that does not answer is given up at the deadline`() throws {
        let connection = try Self.connection(try TestPostgres.database())
        let sleep = PostgresRequest.transaction([PostgresStatement("SELECT pg_sleep(3600)::text")])
        let results = connection.run([sleep], deadline: Self.clock.now.advanced(by: .milliseconds(100)))
        guard case .failure(.lost) = results[0] else { throw LedgerStorageError(.unavailable, "\(results)") }
        #expect(!connection.isUsable)
    }

    @Test(.takesLong) func `a request that finds all connections in use fails before they are free`() async throws {
        let database = try TestPostgres.database()
        var settings = PostgresSettings(database.server.address(database.name))
        settings.connections = 1
        let pool = try ConnectionPool(settings, clock: Self.clock)
        let sleepers = """
            SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'
            AND query LIKE 'SELECT pg_sleep%'
            """
        // Much longer than a request may wait.
        let sleep = PostgresStatement("SELECT pg_sleep(3600)::text")
        let sleeping = Task { try await pool.run(.transaction([sleep], limit: .seconds(3600))) }
        while try database.psql(sleepers).isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        await #expect {
            _ = try await pool.run(.transaction([PostgresStatement("SELECT 1::bigint")]))
        } throws: { error in
            (error as? PostgresFailure)?.message.contains("waited too long") == true
        }
        #expect(try database.psql(sleepers) != "")
        try database.psql("SELECT pg_terminate_backend(pid) FROM (\(sleepers)) AS sleeper")
        await #expect(throws: PostgresFailure.self) { try await sleeping.value }
    }

    @Test func `a request has a limit of its own`() async throws {
        let database = try TestPostgres.database()
        let pool = try ConnectionPool(
            PostgresSettings(database.server.address(database.name)), clock: Self.clock)
        let sleep = PostgresStatement("SELECT pg_sleep(3600)::text")
        await #expect {
            _ = try await pool.run(.transaction([sleep], limit: .milliseconds(100)))
        } throws: { error in
            if case .late? = error as? PostgresFailure { true } else { false }
        }
    }

    @Test func `of more requests than may wait, exactly the others are refused at once`() async throws {
        let database = try TestPostgres.database()
        var settings = PostgresSettings(database.server.address(database.name))
        settings.connections = 1
        let pool = try ConnectionPool(settings, clock: Self.clock)
        let one = PostgresRequest.transaction([PostgresStatement("SELECT 1::bigint")])
        let messages = await Self.answers(Array(repeating: one, count: 2005), pool.loop)
        #expect(messages.filter { $0.contains("Too many requests wait") }.count == 5)
    }

    /// Sends requests from a task of the loop's own: all are there before the loop sends any.
    private static func answers(_ requests: [PostgresRequest], _ loop: ConnectionLoop) async -> [String] {
        let (stream, continuation) = AsyncStream<(Int, String)>.makeStream()
        await withTaskGroup(of: Void.self) { group in
            group.addTask(executorPreference: loop) {
                for (number, request) in requests.enumerated() {
                    loop.send(request) { result in
                        continuation.yield((number, (try? result.get()).map { "\($0.count) answers" } ?? "\(result)"))
                    }
                }
            }
        }
        var answers = requests.map { _ in "" }
        var left = requests.count
        for await (number, answer) in stream {
            answers[number] = answer
            left -= 1
            if left == 0 { break }
        }
        return answers
    }

    @Test func `what was sent behind a request that is not answered in time is sent again`() async throws {
        let database = try TestPostgres.database()
        var settings = PostgresSettings(database.server.address(database.name))
        settings.connections = 1
        let pool = try ConnectionPool(settings, clock: Self.clock)
        let one = PostgresStatement("SELECT 1::bigint")
        _ = try await pool.run(.transaction([one]))
        let sleep = PostgresStatement("SELECT pg_sleep(3600)::text")
        let requests = [
            PostgresRequest.transaction([sleep], limit: .milliseconds(100)), .transaction([one, one]),
            .snapshot([one]),
        ]
        let answers = await Self.answers(requests, pool.loop)
        #expect(answers[0].contains("late"))
        #expect(answers[1...] == ["2 answers", "1 answers"])
    }

    /// Longer than a request may wait for a connection, and while another one is in use.
    @Test(.takesLong) func `what was sent behind a request that takes long has not waited too long`() async throws {
        let database = try TestPostgres.database()
        let settings = PostgresSettings(database.server.address(database.name))
        let opener = try ConnectionOpener(settings, hosts: settings.hosts(), clock: Self.clock)
        let loop = try ConnectionLoop(opener, width: 2, waitingLimit: 100, clock: Self.clock)
        let sleep = PostgresStatement("SELECT pg_sleep(3600)::text")
        let sleeping = Task {
            await Self.answers([.transaction([sleep], limit: .seconds(3600))], loop)
        }
        let pid = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
        while try database.psql(pid).isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        let one = PostgresRequest.transaction([PostgresStatement("SELECT 1::bigint")])
        _ = await Self.answers([one], loop)
        // Half of them are sent together.
        let requests = [.transaction([sleep], limit: .seconds(3))] + Array(repeating: one, count: 7)
        let answers = await Self.answers(requests, loop)
        #expect(answers[0].contains("late"))
        #expect(answers[1..<4] == ["1 answers", "1 answers", "1 answers"])
        try database.psql("SELECT pg_terminate_backend(pid) FROM (\(pid)) AS sleepers")
        _ = await sleeping.value
    }

    /// As if the primary had vanished without a word, and a standby had taken over.
    @Test(.takesLong)
    func `a connection to another database ends the epoch, also if no other has ended`() async throws {
        let (first, second) = (try TestPostgres(), try TestPostgres(isOther: true))
        let database = try first.database()
        try second.psql("postgres", "CREATE DATABASE \(database.name)")
        let files = FileManager.default
        let link = files.temporaryDirectory.appendingPathComponent("quittance-\(database.name)").path
        defer { try? files.removeItem(atPath: link) }
        try files.createSymbolicLink(atPath: link, withDestinationPath: first.folder)
        let settings = PostgresSettings("host=\(link) user=postgres dbname=\(database.name)")
        let opener = try ConnectionOpener(settings, hosts: settings.hosts(), clock: Self.clock)
        let (one, two) = (try opener.open(), try opener.open())
        #expect(one.epoch == two.epoch && opener.isUsable(one))
        try files.removeItem(atPath: link)
        try files.createSymbolicLink(atPath: link, withDestinationPath: second.folder)
        let three = try opener.open()
        #expect(three.epoch != one.epoch && opener.isUsable(three))
        #expect(!opener.isUsable(one) && !opener.isUsable(two))
    }

    @Test func `a request of an epoch is not sent once a connection has ended`() async throws {
        let database = try TestPostgres.database()
        let pool = try ConnectionPool(PostgresSettings(database.server.address(database.name)), clock: Self.clock)
        try database.psql("CREATE TABLE t (a bigint)")
        let insert = PostgresRequest.transaction([PostgresStatement("INSERT INTO t (a) VALUES (1)")])
        let epoch = pool.epoch
        _ = try await pool.run(insert.during(epoch))
        let sleep = PostgresStatement("SELECT pg_sleep(3600)::text")
        await #expect(throws: PostgresFailure.self) {
            _ = try await pool.run(.transaction([sleep], limit: .milliseconds(100)))
        }
        await #expect {
            _ = try await pool.run(insert.during(epoch))
        } throws: { error in
            if case .outdated? = error as? PostgresFailure { true } else { false }
        }
        #expect(try database.psql("SELECT count(*) FROM t") == "1")
        _ = try await pool.run(insert.during(pool.epoch))
        #expect(try database.psql("SELECT count(*) FROM t") == "2")
    }

    @Test func `texts and lists come back as they were`() throws {
        let connection = try Self.connection(try TestPostgres.database())
        let texts = ["", "\u{0}", "a\u{0}\u{1}0b", "NULL", "{\"}", "é😀"]
        let values: [PostgresValue] = texts.map { .text($0) } + [.texts(texts), .texts([]), .null, .bytes([])]
        let types = texts.map { _ in "text" } + ["text[]", "text[]", "bigint", "bytea"]
        let columns = types.enumerated().map { "$\($0 + 1)::\($1)" }.joined(separator: ", ")
        let result = connection.run(
            [.transaction([PostgresStatement("SELECT \(columns)", values)])], deadline: Self.soon)
        #expect(try result[0].get().first?.rows == [values])
    }

    @Test func `statements that were prepared before the tables changed are prepared again`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage { $0.connections = 1 }
        try await storage.proveWritable()
        #expect(try await storage.records(RecordSelection(), limit: 1) == [])
        try database.psql("ALTER TABLE quittance.records ALTER due_at TYPE int")
        #expect(try await storage.records(RecordSelection(), limit: 1) == [])
    }
}

// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import TestPostgres
import TestProcess
import Testing

@testable import LedgerPostgres

/// Tests how a ledger gets its tables, with steps that only this test has.
@Suite(.needsPostgres) struct SchemaStepTests {
    /// If this test fails, the tables or the numbers of stored fields have changed. Until the first release, raise the
    /// number in ``Schema/steps``, and record the new number and digest here. Afterwards undo the change, and add a
    /// step instead.
    @Test func `the tables are those for which the baseline has its number`() {
        let text = (Schema.tables + FieldNumbers.names).joined(separator: "\n")
        let digest = DocumentDigest(Array(text.utf8)).description.prefix(16)
        #expect("\(Schema.steps.baseline) \(digest)" == "29 81ac8767ca3b45f4")
    }

    private static let later = [
        SchemaStep(
            "first",
            ["CREATE TABLE quittance.later (id bigint PRIMARY KEY)", "INSERT INTO quittance.later VALUES (1)"]),
        SchemaStep(
            "second", ["ALTER TABLE quittance.later ADD name text", "UPDATE quittance.later SET name = 'a'"]),
    ]

    private static func migrate(_ database: TestDatabase, _ later: [SchemaStep]) async throws {
        let pool = try ConnectionPool(
            PostgresSettings(database.server.address(database.name)), clock: ContinuousClock())
        defer { pool.close() }
        let steps = SchemaSteps(baseline: Schema.steps.baseline, Schema.steps.all + later)
        try await Migrator(pool: pool, steps: steps).migrate()
    }

    private static func version(_ database: TestDatabase) throws -> Int? {
        Int(try database.psql("SELECT version FROM quittance.schema_version"))
    }

    @Test func `a ledger takes the steps that it lacks in their order, and a new one takes all`() async throws {
        let (old, new) = (try TestPostgres.database(), try TestPostgres.database())
        _ = try await old.storage()
        #expect(try Self.version(old) == Schema.steps.baseline)
        try await Self.migrate(old, Array(Self.later[..<1]))
        #expect(try Self.version(old) == Schema.steps.baseline + 1)
        for database in [old, new, old] {
            try await Self.migrate(database, Self.later)
            #expect(try Self.version(database) == Schema.steps.baseline + 2)
            #expect(try database.psql("SELECT id, name FROM quittance.later") == "1|a")
        }
    }

    @Test func `a step that fails leaves the ledger as the step before left it, and is named`() async throws {
        let database = try TestPostgres.database()
        let broken = SchemaStep(
            "broken", ["UPDATE quittance.later SET name = 'b'", "UPDATE quittance.nothing SET id = 1"])
        await #expect {
            try await Self.migrate(database, Self.later + [broken])
        } throws: { error in
            let message = (error as? PostgresFailure)?.message ?? ""
            return message.contains("quittance.nothing")
                && message.hasSuffix("in the step broken of the ledger's tables")
        }
        #expect(try Self.version(database) == Schema.steps.baseline + 2)
        #expect(try database.psql("SELECT name FROM quittance.later") == "a")
    }

    @Test func `many servers that find a missing step take it once`() async throws {
        let database = try TestPostgres.database()
        _ = try await database.storage()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<6 { group.addTask { try await Self.migrate(database, Self.later) } }
            try await group.waitForAll()
        }
        #expect(try Self.version(database) == Schema.steps.baseline + 2)
        #expect(try database.psql("SELECT id, name FROM quittance.later") == "1|a")
        #expect(try database.psql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == "0")
    }

    @Test func `software without a step refuses a ledger that has taken it, and changes nothing`() async throws {
        let database = try TestPostgres.database()
        try await Self.migrate(database, Self.later)
        try await Self.expectRefusal(of: database, "a newer version of this software")
    }

    @Test(arguments: [1, Schema.steps.baseline - 1])
    func `a ledger of a version that no release wrote is refused, and not changed`(version: Int) async throws {
        let database = try TestPostgres.database()
        _ = try await database.storage()
        try database.psql("UPDATE quittance.schema_version SET version = \(version)")
        try await Self.expectRefusal(
            of: database, "The tables have version \(version), and this is a ledger that no release wrote.")
    }

    private static func expectRefusal(of database: TestDatabase, _ reason: String) async throws {
        let before = try database.dump()
        for (upgrades, continuesCopy) in [(true, false), (true, true), (false, false)] {
            await #expect {
                _ = try await database.storage(upgrades: upgrades, continuesCopy: continuesCopy)
            } throws: { error in
                let error = error as? LedgerStorageError
                return error?.code == .damaged && error?.isPassing == false && error?.message.contains(reason) == true
            }
        }
        #expect(try database.dump() == before)
    }

    @Test func `a ledger on the search path is not passed over for a new one, unless a schema is named`() async throws {
        let database = try TestPostgres.database()
        _ = try await database.storage { $0.schema = "public" }
        let before = try database.dump()
        for upgrades in [true, false] {
            await #expect {
                _ = try await database.storage(upgrades: upgrades)
            } throws: { error in
                "\(error)".contains("add schema=public for that ledger, or schema=quittance for a new one")
            }
        }
        #expect(try database.dump() == before)
        try await database.storage { $0.schema = "quittance" }.proveWritable()
        try await database.storage().proveWritable()
    }

    /// Adds what a step may add.
    private static let next = [
        "ALTER TABLE quittance.chains ADD COLUMN later bigint", "CREATE TABLE quittance.later (id bigint PRIMARY KEY)",
        "ALTER TABLE quittance.records ADD COLUMN later text",
    ]

    /// Statements that servers have prepared refer to the tables as they were.
    @Test func `servers go on while and after columns are added to their tables`() async throws {
        let database = try TestPostgres.database()
        let servers = [try await database.storage(), try await database.storage()]
        try await withThrowingTaskGroup(of: Void.self) { group in
            for lane in 0..<4 {
                group.addTask {
                    for number in 0..<20 {
                        try await TroubleTests.add(lane * 100 + number, to: lane, through: servers[lane % 2])
                        _ = try await servers[lane % 2].documentCount()
                    }
                }
            }
            group.addTask { _ = try await aside { try database.psql(Self.next.joined(separator: ";")) } }
            try await group.waitForAll()
        }
        #expect(try await TroubleTests.numbers(in: servers[0]).map(\.count) == [20, 20, 20, 20])
    }
}

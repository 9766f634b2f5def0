// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import TestData
import TestPostgres
import Testing

@testable import LedgerPostgres

/// Tests that nothing of other software is written, and that a ledger is found where it is.
@Suite(.needsPostgres) struct ForeignDatabaseTests {
    /// All tables, columns, views and indexes outside PostgreSQL's own schemas, and the rows of two tables.
    private static func everything(_ database: TestDatabase) throws -> String {
        try database.psql(
            """
            SELECT nspname, relname, relkind, attname, atttypid::regtype FROM pg_class
            JOIN pg_namespace ON pg_namespace.oid = relnamespace JOIN pg_attribute ON attrelid = pg_class.oid
            WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema') ORDER BY 1, 2, 4
            """)
    }

    private static func ledgers(_ database: TestDatabase) throws -> String {
        try database.psql(
            "SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE relname = 'outbox'"
        )
    }

    @Test(
        .takesLong,
        arguments: [
            "CREATE TABLE schema_version (version int); INSERT INTO schema_version VALUES (0)",
            "CREATE TABLE schema_version (id bigint PRIMARY KEY, version bigint); INSERT INTO schema_version VALUES (1, 0)",
            "CREATE TABLE customers (id bigint PRIMARY KEY, name text); INSERT INTO customers VALUES (1, 'theirs')",
            "CREATE TABLE events (id bigint); CREATE VIEW periods AS SELECT 1 AS one; CREATE TABLE jobs (id int)",
        ])
    func `tables of other software stay as they are beside a ledger`(sql: String) async throws {
        let database = try TestPostgres.database()
        try database.psql(sql)
        let before = try Self.everything(database)
        await #expect(throws: LedgerStorageError.self) { try await database.storage(upgrades: false) }
        #expect(try Self.everything(database) == before)
        let storage = try await database.storage()
        try await TroubleTests.add(1, to: 0, through: storage)
        #expect(try Self.ledgers(database) == "quittance")
        let others = try Self.everything(database).split(separator: "\n").filter { $0.hasPrefix("public|") }
        #expect(others == before.split(separator: "\n").filter { $0.hasPrefix("public|") })
    }

    @Test(
        .takesLong,
        arguments: [
            "CREATE TABLE quittance.customers (id bigint)",
            "CREATE TABLE quittance.schema_version (version int)",
            "CREATE TABLE quittance.schema_version (id bigint PRIMARY KEY, version bigint, ledger text)",
            "CREATE VIEW quittance.later AS SELECT 1 AS one",
        ])
    func `a schema with tables of other software is refused, and not written`(sql: String) async throws {
        let database = try TestPostgres.database()
        try database.psql("CREATE SCHEMA quittance; \(sql)")
        let before = try Self.everything(database)
        await #expect {
            try await database.storage()
        } throws: { error in
            "\(error)".contains("The schema quittance of this database has tables of other software: add schema=NAME")
        }
        #expect(try Self.everything(database) == before)
        let storage = try await database.storage { $0.schema = "billing" }
        try await TroubleTests.add(1, to: 0, through: storage)
        #expect(try Self.ledgers(database) == "billing")
    }

    @Test func `a ledger whose marker is not ours is of other software`() async throws {
        let database = try TestPostgres.database()
        _ = try await database.storage()
        for change in ["ledger = 'a fork'", "ledger = NULL"] {
            try database.psql(
                "ALTER TABLE quittance.schema_version ALTER ledger DROP NOT NULL; UPDATE quittance.schema_version SET \(change)"
            )
            await #expect {
                try await database.storage()
            } throws: { error in
                "\(error)".contains("has tables of other software")
            }
        }
    }

    @Test func `an empty schema that the owner of the database has made is used`() async throws {
        let database = try TestPostgres.database()
        try database.psql(
            """
            CREATE ROLE ledger_\(database.name) LOGIN;
            CREATE SCHEMA quittance AUTHORIZATION ledger_\(database.name)
            """)
        let address = "host=\(database.server.folder) user=ledger_\(database.name) dbname=\(database.name)"
        let storage = try await PostgresLedgerStorage(
            PostgresSettings(address), clock: ContinuousClock(), random: SystemRandomNumberGenerator())
        try await TroubleTests.add(1, to: 0, through: storage)
        #expect(try Self.ledgers(database) == "quittance")
    }

    @Test func `two ledgers in one database are two`() async throws {
        let database = try TestPostgres.database()
        let (first, second) = (
            try await database.storage { $0.schema = "first" }, try await database.storage { $0.schema = "second" }
        )
        try await TroubleTests.add(1, to: 0, through: first)
        let identity = try #require(try await first.report().identity)
        #expect(try await second.report().identity != identity)
        #expect(try await database.storage { $0.schema = "first" }.report().identity == identity)
        #expect(try await TroubleTests.numbers(in: first).map(\.count).first == 1)
        #expect(try await second.chains(.all, limit: 9) == [])
    }

    @Test(arguments: ["", "Quittance", "pg_ledger", "a b", "a\"; DROP TABLE x; --", "1st", "information_schema"])
    func `a name that PostgreSQL would change or keep for itself is refused`(name: String) throws {
        let settings = PostgresSettings("postgresql:///ledger?schema=\(name)&host=/tmp")
        #expect(throws: PostgresFailure.self) { try settings.options() }
        #expect(settings.address == "postgresql:///ledger?host=/tmp")
    }
}

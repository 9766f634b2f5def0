// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import TestPostgres
import Testing

@testable import LedgerPostgres

/// Tests that servers of two versions go on while one of them changes the tables.
@Suite(.needsPostgres) struct MigrationTests {
    /// Makes the tables of an earlier version.
    static func migrate(_ database: TestDatabase, by count: Int, in schema: String? = nil) async throws {
        var settings = PostgresSettings(database.server.address(database.name))
        (settings.connections, settings.schema) = (1, schema)
        var migrator = Migrator(pool: try ConnectionPool(settings, clock: ContinuousClock()))
        migrator.migrations = Array(Schema.migrations.prefix(count))
        try await migrator.migrate()
        // Such a version has written no marker.
        guard (1...Schema.unmarked).contains(count) else { return }
        try database.psql("ALTER TABLE \(schema ?? "quittance").schema_version DROP COLUMN ledger")
    }

    /// A database may have been brought up to date by any version, and each expects what the others made.
    @Test func `migrations that a version has run never change`() {
        let digests = Schema.migrations.map { migration in
            DocumentDigest(Array(migration.joined(separator: "; ").replacing(#/\s+/#, with: " ").utf8)).description
                .prefix(16)
        }
        #expect(
            digests == [
                "fc4da6c6d8dcda28", "cd79e0f17dbee1eb", "f01274da50d57604", "b3bad3d60ac94a73", "dee3bcae116498da",
                "8da4b5948f1fa2e6", "92217aceaaf52ee6", "cfe61342c0281f75", "a684471d4e381fed", "3acf924b4c3062cf",
                "f16572ff907b501f", "097247ce3dfb3aa5", "f214bc3d0e78a41c", "601e1c10bb88689d", "30291088587caadf",
                "2ebd5eab2980da44", "86f9c279fb6e7130", "5e536c57ae0206d3", "a9a873e1f03b5588",
                "17565c2341e84096",
            ])
    }

    /// Another migration adds what a migration may add.
    private static let next = [
        "ALTER TABLE quittance.chains ADD COLUMN later bigint", "CREATE TABLE quittance.later (id bigint PRIMARY KEY)",
        "ALTER TABLE quittance.api_keys ADD COLUMN later text",
    ]

    @Test(arguments: Schema.migrations.indices)
    func `many servers that find an older version bring it up to date once`(version: Int) async throws {
        let database = try TestPostgres.database()
        try await Self.migrate(database, by: version)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<6 { group.addTask { try await Self.migrate(database, by: Schema.migrations.count) } }
            try await group.waitForAll()
        }
        #expect(try database.psql("SELECT version FROM quittance.schema_version") == "\(Schema.migrations.count)")
        try await database.storage(upgrades: false).proveWritable()
    }

    @Test func `half a copy of an earlier version is refused before it is brought up to date`() async throws {
        let database = try TestPostgres.database()
        let earlier = Schema.migrations.count - 1
        try await Self.migrate(database, by: earlier)
        try database.psql("INSERT INTO quittance.unfinished_copy (id, source, began_at) VALUES (1, 'sqlite:a', 0)")
        await #expect { _ = try await database.storage() } throws: { error in
            (error as? LedgerStorageError)?.code == .unfinishedCopy
        }
        #expect(try database.psql("SELECT version FROM quittance.schema_version") == "\(earlier)")
    }

    /// Statements that servers have prepared refer to the tables as they were.
    @Test func `servers that are running go on while and after another one adds to the tables`() async throws {
        let database = try TestPostgres.database()
        let servers = [try await database.storage(), try await database.storage()]
        try await withThrowingTaskGroup(of: Void.self) { group in
            for lane in 0..<4 {
                group.addTask {
                    for number in 0..<20 {
                        try await TroubleTests.add(lane * 100 + number, to: lane, through: servers[lane % 2])
                        _ = try await servers[lane % 2].apiKeys()
                    }
                }
            }
            group.addTask {
                var settings = PostgresSettings(database.server.address(database.name))
                settings.connections = 1
                var migrator = Migrator(pool: try ConnectionPool(settings, clock: ContinuousClock()))
                migrator.migrations.append(Self.next)
                try await migrator.migrate()
            }
            try await group.waitForAll()
        }
        #expect(try await TroubleTests.numbers(in: servers[0]).map(\.count) == [20, 20, 20, 20])
        #expect(try database.psql("SELECT version FROM quittance.schema_version") == "\(Schema.migrations.count + 1)")
    }

    /// The key of events was their number alone. Two apps may have the same number since.
    @Test func `events that an earlier version numbered keep their numbers`() async throws {
        let database = try TestPostgres.database()
        try await Self.migrate(database, by: 2)
        try database.psql(
            """
            INSERT INTO quittance.apps (bundle_id) VALUES ('com.example.one'), ('com.example.two');
            INSERT INTO quittance.scopes (app, environment) VALUES (1, 'Production'), (2, 'Production');
            INSERT INTO quittance.events (
                sequence, app, recorded_at, home, source, scope, version, place, kind, effective_at)
            SELECT n, 1 + n % 2, n, '', 1, 1 + n % 2, n, 0, 'customer.deleted', n FROM generate_series(1, 9) AS n;
            UPDATE quittance.counter SET last = 9 WHERE id = 1
            """)
        let ledger = Ledger(storage: try await database.storage())
        for (app, numbers) in [("com.example.one", [4, 6, 8]), ("com.example.two", [3, 5, 7, 9])] as [(String, [Int64])]
        {
            let events = try await ledger.events(of: app, after: EventCursor(2), limit: 100).events
            #expect(events.map(\.cursor?.number) == numbers)
        }
        try database.psql(
            """
            INSERT INTO quittance.events (
                sequence, app, recorded_at, home, source, scope, version, place, kind, effective_at)
            VALUES (3, 1, 3, '', 2, 1, 3, 0, 'customer.deleted', 3)
            """)
        let events = try await ledger.events(of: "com.example.one", after: EventCursor(2), limit: 1).events
        #expect(events.map(\.cursor?.number) == [3])
    }
}

// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import TestPostgres
import Testing

@testable import LedgerPostgres

/// Tests that servers of two versions go on while one of them changes the tables.
@Suite(.needsPostgres) struct MigrationTests {
    private static func migrate(_ database: TestDatabase, by count: Int) async throws {
        var settings = PostgresSettings(database.server.address(database.name))
        settings.connections = 1
        var migrator = Migrator(pool: try ConnectionPool(settings, clock: ContinuousClock()))
        migrator.migrations = Array(Schema.migrations.prefix(count))
        try await migrator.migrate()
    }

    /// Another migration adds what a migration may add.
    private static let next = [
        "ALTER TABLE chains ADD COLUMN later bigint", "CREATE TABLE later (id bigint PRIMARY KEY)",
        "ALTER TABLE api_keys ADD COLUMN later text",
    ]

    @Test(arguments: Schema.migrations.indices)
    func `many servers that find an older version bring it up to date once`(version: Int) async throws {
        let database = try TestPostgres.database()
        try await Self.migrate(database, by: version)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<6 { group.addTask { try await Self.migrate(database, by: Schema.migrations.count) } }
            try await group.waitForAll()
        }
        #expect(try database.psql("SELECT version FROM schema_version") == "\(Schema.migrations.count)")
        try await database.storage(upgrades: false).proveWritable()
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
        #expect(try database.psql("SELECT version FROM schema_version") == "\(Schema.migrations.count + 1)")
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import TestData
import TestPostgres
import Testing

@testable import LedgerPostgres

/// Tests what a follower of events hears after a standby took over that lacks the last commits.
@Suite(.needsPostgres, .timeLimit(.minutes(60))) struct EpochTests {
    private static let app = "com.example.one"
    private static let scope = LedgerScope(bundleId: app, environment: .production)

    private static func add(_ details: ClosedRange<Int>, through storage: some LedgerStorage) async throws {
        for detail in details {
            // Events of one numbering are ordered by time.
            let time = Timestamp(milliseconds: 1_750_000_000_000 + Int64(detail))
            let content = EventContent(effectiveAt: time, detail: "\(detail)")
            let events = [LedgerEvent(.purchased, in: scope, at: time, content)]
            try await storage.commit(LedgerQuery()) { _ in
                var changes = LedgerChanges()
                changes.events = events
                return .commit(changes, ())
            }
        }
    }

    private static func details(
        _ storage: some LedgerStorage, after cursor: EventCursor?
    ) async throws -> [String] {
        try await storage.events(of: app, after: cursor, limit: 100).events.compactMap { $0.content?.detail }
    }

    private static func follow(_ storage: some LedgerStorage) async throws -> EventCursor {
        try await storage.events(of: app, after: nil, limit: 100).next
    }

    /// - Parameter hasEvents: Whether the new primary numbers events before the follower asks.
    @Test(.takesLong, arguments: [false, true])
    func `a follower is told which events a standby lacks, and hears of all that come`(hasEvents: Bool) async throws {
        let primary = try TestPostgres()
        let database = try primary.database()
        let before = try await database.storage()
        #expect(before.showsIdentity)
        try await Self.add(1...20, through: before)
        let shared = try await Self.follow(before)
        let standby = try TestPostgres(following: primary)
        try standby.psql("postgres", "ALTER SYSTEM SET primary_conninfo = ''")
        try standby.psql("postgres", "SELECT pg_reload_conf()")
        while try standby.psql("postgres", "SELECT count(*) FROM pg_stat_wal_receiver") != "0" {
            try await Task.sleep(for: .milliseconds(20))
        }
        try await Self.add(21...30, through: before)
        let lost = try await Self.follow(before)
        before.close()
        try primary.destroy()
        try standby.promote()

        let after = try await standby.existing(database).storage()
        if hasEvents { try await Self.add(31...60, through: after) }
        let error = EventCursorError.lost(oldest: shared)
        await #expect(throws: error) { try await Self.details(after, after: lost) }
        if !hasEvents { try await Self.add(31...60, through: after) }
        #expect(try await Self.details(after, after: shared) == (31...60).map { "\($0)" })
        await #expect(throws: error) { try await Self.details(after, after: lost) }
        let end = try await Self.follow(after)
        #expect(end.epoch != lost.epoch)
        let first = try #require(try await after.events(of: Self.app, after: shared, limit: 1).events.first)
        #expect(first.kind == .ledgerRestored && first.cursor == EventCursor(21, epoch: end.epoch))
        #expect(first.content == EventContent(effectiveAt: first.recordedAt) && first.scope == Self.scope)
        #expect(try await Self.details(after, after: end) == [])
    }

    @Test(.takesLong) func `a restart of the database begins no epoch`() async throws {
        let server = try TestPostgres()
        let database = try server.database()
        let storage = try await database.storage()
        try await Self.add(1...2, through: storage)
        let cursor = try await Self.follow(storage)
        try server.restart()
        try await Self.add(3...3, through: storage)
        #expect(try await Self.follow(storage).epoch == cursor.epoch)
        #expect(try await Self.details(storage, after: cursor) == ["3"])
    }

    /// A database that is restored from a dump has another oid.
    @Test func `a database that was made from another one begins an epoch with its first new event`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        try await Self.add(1...2, through: storage)
        let shared = try await Self.follow(storage)
        storage.close()
        let name = "\(database.name)_restored"
        try database.server.psql(
            "postgres",
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '\(database.name)'")
        try database.server.psql("postgres", "CREATE DATABASE \(name) TEMPLATE \(database.name)")
        let original = try await database.storage()
        try await Self.add(3...4, through: original)
        let lost = try await Self.follow(original)
        let restored = try await PostgresLedgerStorage(
            PostgresSettings(database.server.address(name)), clock: ContinuousClock(),
            random: SystemRandomNumberGenerator())
        try await Self.add(5...9, through: restored)
        await #expect(throws: EventCursorError.lost(oldest: shared)) { try await Self.details(restored, after: lost) }
        #expect(try await Self.details(restored, after: shared) == (5...9).map { "\($0)" })
        let numbers = try await restored.events(of: Self.app, after: nil, limit: 100).events.map(\.cursor?.number)
        #expect(numbers == Array(1...8))
        #expect(try await Self.details(original, after: lost) == [])
    }

    /// As `pg_restore --clean` does, which makes the tables anew.
    @Test func `a dump that is restored into the same database begins an epoch`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        try await Self.add(1...2, through: storage)
        let shared = try await Self.follow(storage)
        try await Self.add(3...4, through: storage)
        let lost = try await Self.follow(storage)
        storage.close()
        try database.psql(
            """
            CREATE TABLE quittance.restored (LIKE quittance.epochs INCLUDING ALL);
            INSERT INTO quittance.restored SELECT * FROM quittance.epochs;
            DROP TABLE quittance.epochs;
            ALTER TABLE quittance.restored RENAME TO epochs;
            DELETE FROM quittance.events WHERE sequence > 2;
            UPDATE quittance.counter SET last = 2 WHERE id = 1
            """)
        let restored = try await database.storage()
        try await Self.add(5...9, through: restored)
        await #expect(throws: EventCursorError.lost(oldest: shared)) { try await Self.details(restored, after: lost) }
        #expect(try await Self.details(restored, after: shared) == (5...9).map { "\($0)" })
    }

    /// What a provider forbids.
    @Test func `a database that does not say which one it is numbers events, and says so`() async throws {
        let server = try TestPostgres()
        let database = try server.database()
        try database.psql(
            """
            REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC;
            CREATE ROLE plain LOGIN; GRANT CREATE ON DATABASE \(database.name) TO plain
            """)
        let storage = try await PostgresLedgerStorage(
            PostgresSettings("host=\(server.folder) user=plain dbname=\(database.name)"), clock: ContinuousClock(),
            random: SystemRandomNumberGenerator())
        #expect(!storage.showsIdentity)
        try await Self.add(1...2, through: storage)
        let cursor = try await Self.follow(storage)
        #expect(cursor.number == 2 && !cursor.epoch.isEmpty)
        try await storage.beginEpoch(at: Timestamp(milliseconds: 1_750_000_000_003))
        let first = try await storage.events(of: Self.app, after: cursor, limit: 9).events
        #expect(first.map(\.kind) == [Open(.ledgerRestored)] && first[0].cursor?.number == 3)
        try await Self.add(3...3, through: storage)
        #expect(try await Self.details(storage, after: cursor) == ["3"])
        let lost = EventCursor(3, epoch: cursor.epoch)
        await #expect(throws: EventCursorError.lost(oldest: cursor)) { try await Self.details(storage, after: lost) }
    }
}

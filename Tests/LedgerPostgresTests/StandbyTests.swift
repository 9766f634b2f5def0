// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import Synchronization
import TestData
import TestPostgres
import Testing

@testable import LedgerPostgres

/// Tests that nothing is acknowledged before a synchronous standby has it, however the wait for the standby ends.
@Suite(.needsPostgres, .timeLimit(.minutes(60))) struct StandbyTests {
    private final class Call: Sendable {
        let isOver = Mutex(false)
    }

    /// The database commits a transaction whose wait is cancelled, and shows it to everybody. A document that is sent
    /// again is then known, and yet nobody knows whether the standby has it.
    @Test(.takesLong, arguments: ["pg_cancel_backend", "pg_terminate_backend"])
    func `a wait for the standby that was ended is no acknowledgement, also of what is sent again`(
        end: String
    ) async throws {
        let server = try TestPostgres()
        let database = try server.database()
        let storage = try await database.storage()
        try await TroubleTests.add(1, to: 1, through: storage)
        try server.requireStandby()
        // Number 0 stands for a write of one statement, which has no block around it.
        for number in [2, 2, 1, 0] {
            let call = Call()
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    defer { call.isOver.withLock { $0 = true } }
                    await #expect(throws: LedgerStorageError.self, "document \(number)") {
                        guard number > 0 else { return try await storage.proveWritable() }
                        try await TroubleTests.add(number, to: 1, through: storage)
                    }
                }
                while !call.isOver.withLock({ $0 }) {
                    try database.psql(
                        "SELECT count(\(end)(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
                    try await Task.sleep(for: .milliseconds(5))
                }
                try await group.waitForAll()
            }
        }
        #expect(try await TroubleTests.numbers(in: storage)[1] == [1, 2])
        try server.psql("postgres", "ALTER SYSTEM RESET synchronous_standby_names")
        try server.psql("postgres", "SELECT pg_reload_conf()")
        for number in [2, 3] { try await TroubleTests.add(number, to: 1, through: storage) }
        #expect(try await TroubleTests.numbers(in: storage)[1] == [1, 2, 3])
    }

    /// The write that waits for the standby says nothing about a document on the primary that takes over.
    @Test(.takesLong)
    func `a document that was known before a failover is not acknowledged by a database that lacks it`()
        async throws
    {
        let server = try TestPostgres()
        let database = try server.database()
        try await database.storage().close()
        let standby = "\(database.name)_standby"
        try server.psql("postgres", "CREATE DATABASE \(standby) TEMPLATE \(database.name)")
        let storage = try await database.storage()
        try await TroubleTests.add(1, to: 1, through: storage)
        try server.requireStandby()
        // Until it is answered with success: meanwhile there may be no database of that name.
        let again = Task {
            while (try? await TroubleTests.add(1, to: 1, through: storage)) == nil {
                try await Task.sleep(for: .milliseconds(5))
            }
        }
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        while try server.psql("postgres", waiting) == "0" { try await Task.sleep(for: .milliseconds(5)) }
        let failover = """
            SET synchronous_commit = local;
            SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '\(database.name)';
            ALTER DATABASE \(database.name) RENAME TO \(database.name)_primary;
            ALTER DATABASE \(standby) RENAME TO \(database.name);
            """
        // Refused while a new connection is there already.
        while (try? server.psql("postgres", failover)) == nil { continue }
        try server.psql("postgres", "ALTER SYSTEM RESET synchronous_standby_names")
        try server.psql("postgres", "SELECT pg_reload_conf()")
        try await again.value
        #expect(try await TroubleTests.numbers(in: storage)[1] == [1])
    }
}

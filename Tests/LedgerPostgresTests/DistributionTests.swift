// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import PurchaseLedger
import PurchaseLedgerTesting
import TestPostgres
import TestProcess
import TestWorld
import Testing

@testable import LedgerPostgres

/// Tests the tables and statements of a ledger on Citus. Citus itself is needed for the last test alone; the others
/// check what its documentation says about the statements that were run.
@Suite(.needsPostgres) struct DistributionTests {
    private static func database(isCoordinator: Bool = true) throws -> TestDatabase {
        let database = try TestPostgres.database()
        try CitusStandIn.install(in: database, isCoordinator: isCoordinator)
        return database
    }

    @Test func `servers that start at once distribute each table once, and later ones find that done`() async throws {
        let database = try Self.database()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 { group.addTask { try await database.storage().proveWritable() } }
            try await group.waitForAll()
        }
        let missing = """
            SELECT count(*) FROM pg_class LEFT JOIN pg_dist_partition ON logicalrelid = pg_class.oid
            WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = 'quittance'::regnamespace
            AND relname <> 'pg_dist_partition' AND logicalrelid IS NULL
            """
        #expect(try database.psql(missing) == "0")
        let homeless = """
            SELECT count(*) FROM pg_dist_partition JOIN pg_attribute ON attrelid = logicalrelid AND attname = 'home'
            JOIN pg_collation ON pg_collation.oid = attcollation
            WHERE partmethod = 'hash' AND (key <> 'home' OR collname <> 'C')
            """
        #expect(try database.psql(homeless) == "0")
        #expect(try database.psql("SELECT count(*) FROM pg_dist_partition WHERE partmethod = 'hash'") == "8")
    }

    @Test func `a node that may not distribute the tables says which one may`() async throws {
        let database = try Self.database(isCoordinator: false)
        await #expect {
            _ = try await database.storage()
        } throws: { error in
            "\(error)".contains("name it in the address once")
        }
        #expect(try database.psql("SELECT coalesce(to_regclass('quittance.chains')::text, 'none')") == "none")
    }

    @Test func `the statements for several nodes meet the contract, and Citus is not known to refuse any`()
        async throws
    {
        let server = try TestPostgres(loading: "pg_stat_statements")
        try server.psql("postgres", "CREATE EXTENSION pg_stat_statements")
        try await LedgerStorageContract {
            let database = try server.database()
            try CitusStandIn.install(in: database)
            return (try await database.storage(), try await database.storage())
        }.run()
        // Servers send parameters. Statements without any are those of the test, and of migrations.
        let statements = try Self.statements(server).filter { $0.contains("$1") && !$0.contains("split_part") }
        #expect(statements.count > 40)
        for statement in statements {
            #expect(CitusPlan(statement).refusal == nil, "\(statement)")
        }
    }

    @Test func `all statements of an intake are about one node`() async throws {
        let server = try TestPostgres(loading: "pg_stat_statements")
        try server.psql("postgres", "CREATE EXTENSION pg_stat_statements")
        let (database, store) = (try server.database(), try TestStore())
        try CitusStandIn.install(in: database)
        let storage = try await database.storage()
        let ledger = Ledger(storage: storage)
        let app = AppIdentity(bundleId: "com.example", appAppleId: 1)
        var world = World(selling: [.subscription("month", Period(1, .month))], in: app, at: TestStore.start)
        let id = try #require(try world.sell("month").transaction?.originalTransactionId)
        for round in 0..<3 {
            // The first one is about an app and a chain that are new.
            if round == 1 { try server.psql("postgres", "SELECT pg_stat_statements_reset()") }
            let notification = try store.signer.notification(
                try #require(world.occurrences.last), from: world.catalogue)
            let verified = try await store.verifier().verify(notification: notification.utf8, at: world.now)
            // The second time it is looked up.
            for _ in 0..<2 { _ = try await ledger.record([#require(Evidence(verified))], at: world.now) }
            if round % 2 == 0 { try world.cancel(id) } else { try world.resume(id) }
        }
        // Numbering events reads the outbox of all nodes, for many intakes together.
        let statements = try Self.statements(server).filter { $0.contains("$1") && !$0.contains("outbox JOIN") }
        #expect(statements.count { $0.contains("INSERT INTO quittance.documents") } == 1)
        #expect(statements.contains { $0.hasPrefix("SELECT signed_date, digest FROM quittance.documents") })
        for statement in statements { #expect(CitusPlan(statement).isOnOneNode, "\(statement)") }
        let page = try await ledger.events(of: app.bundleId, limit: 100)
        #expect(page.events.count >= 3)
    }

    @Test(arguments: [
        "SELECT 1 FROM quittance.documents WHERE digest = $1 FOR UPDATE",
        "SELECT 1 FROM quittance.customers, LATERAL (SELECT state FROM quittance.chains WHERE home = $1) AS held",
        "SELECT state FROM quittance.transactions JOIN quittance.chains ON chains.home = transactions.chain WHERE transactions.home = $1",
        "DELETE FROM quittance.outbox WHERE ctid = ANY (ARRAY(SELECT ctid FROM quittance.outbox LIMIT $1))",
        "DELETE FROM quittance.outbox WHERE (SELECT true FROM quittance.events WHERE events.home = outbox.home AND $1)",
        "INSERT INTO quittance.pieces (digest, content) VALUES ($1, $2) ON CONFLICT DO NOTHING",
    ])
    func `what Citus refuses is noticed`(statement: String) {
        #expect(CitusPlan(statement).refusal != nil)
    }

    @Test(arguments: [
        ("SELECT state FROM quittance.chains WHERE home = $1 AND scope = $2", true),
        ("INSERT INTO quittance.chains AS c (home, scope) VALUES ($1, $2) ON CONFLICT (home, scope) DO NOTHING", true),
        ("SELECT 1 FROM quittance.documents WHERE signed_date = $1 AND digest = $2", false),
        ("INSERT INTO quittance.documents (signed_date, home) SELECT $1, $2", false),
        ("SELECT last FROM quittance.counter WHERE id = $1", true),
    ])
    func `what asks all nodes is noticed`(statement: String, isOnOneNode: Bool) {
        #expect(CitusPlan(statement).isOnOneNode == isOnOneNode)
    }

    private static func statements(_ server: TestPostgres) throws -> [String] {
        let text = try server.psql(
            "postgres",
            "SELECT DISTINCT regexp_replace(query, E'\\\\s+', ' ', 'g') FROM pg_stat_statements JOIN pg_database ON pg_database.oid = dbid WHERE datname LIKE 'test%' AND query !~ 'pg_(class|dist|ext)|CREATE|ALTER'"
        )
        return text.split(separator: "\n").map(String.init)
    }

    // MARK: - Citus itself

    private static let citus = ProcessInfo.processInfo.environment["QUITTANCE_TEST_CITUS"]

    /// Each ledger is in a schema of its own, which stays.
    @Test(.enabled(if: citus != nil, "QUITTANCE_TEST_CITUS does not name a database of a Citus coordinator, as a URI"))
    func `two servers on Citus meet the contract`() async throws {
        let address = try #require(Self.citus)
        try await LedgerStorageContract {
            let schema = "test_\(UUID().uuidString.lowercased().replacingOccurrences(of: "-", with: ""))"
            var settings = PostgresSettings(address)
            settings.schema = schema
            func storage() async throws -> PostgresLedgerStorage {
                try await PostgresLedgerStorage(
                    settings, clock: ContinuousClock(), random: SystemRandomNumberGenerator())
            }
            return (try await storage(), try await storage())
        }.run()
    }
}

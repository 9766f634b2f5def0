// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import PurchaseLedger
import PurchaseLedgerTesting
import TestData
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
        #expect(try database.psql("SELECT count(*) FROM pg_dist_partition WHERE partmethod = 'hash'") == "9")
        #expect(try database.psql(Self.unusableFunctions) == "")
    }

    /// The functions that a statement cannot call on each node. Citus takes none that is not immutable in `CASE` and in
    /// `ON CONFLICT DO UPDATE SET`.
    private static let unusableFunctions = """
        SELECT proname FROM pg_proc LEFT JOIN pg_dist_object ON objid = pg_proc.oid
        WHERE pronamespace = 'quittance'::regnamespace
            AND (objid IS NULL OR provolatile <> 'i')
        """

    @Test func `a node that may not distribute the tables says which one may`() async throws {
        let database = try Self.database(isCoordinator: false)
        await #expect {
            _ = try await database.storage()
        } throws: { error in
            "\(error)".contains("name the coordinator in the address once")
        }
        #expect(try database.psql("SELECT coalesce(to_regclass('quittance.chains')::text, 'none')") == "none")
    }

    @Test(.takesLong)
    func `the statements for several nodes meet the contract, and Citus is not known to refuse any`()
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
        let statements = try Self.statements(server).filter { $0.contains("$1") }
        #expect(statements.count > 40)
        for statement in statements {
            #expect(CitusPlan(statement).refusal == nil, "\(statement)")
        }
        // Only a test displaces a document that it has not found before.
        let changes = statements.filter {
            $0.contains(#/(INTO|UPDATE|DELETE FROM) quittance\.(documents|mentions)/#)
                && !$0.contains("wording IS NOT NULL AND is_pinned IS NULL")
        }
        #expect(changes.count >= 9)
        for statement in changes { #expect(CitusPlan(statement).isOnOneNode, "\(statement)") }
    }

    /// Numbering is left out: it reads the outbox of all nodes, for many intakes together.
    private static func isAnswered(_ statement: String) -> Bool {
        statement.contains("$1") && !statement.contains("outbox JOIN")
    }

    @Test(.takesLong) func `all statements of an intake are about one node`() async throws {
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
            let document = try await store.verifier().evidence(notification: notification, at: world.now)
            // The second time it is looked up.
            for _ in 0..<2 { _ = try await ledger.record([document], at: world.now) }
            if round % 2 == 0 { try world.cancel(id) } else { try world.resume(id) }
        }
        let statements = try Self.statements(server).filter(Self.isAnswered)
        #expect(statements.count { $0.contains("INSERT INTO quittance.documents") } == 1)
        #expect(statements.contains { $0.hasPrefix("SELECT signed_date, digest FROM quittance.documents") })
        for statement in statements { #expect(CitusPlan(statement).isOnOneNode, "\(statement)") }
        // What was known is confirmed by the node that has it.
        #expect(statements.contains { $0.hasPrefix("INSERT INTO quittance.confirmations") })
        let page = try await ledger.events(of: app.bundleId, limit: 100)
        #expect(page.events.count >= 3)
    }

    @Test(.takesLong)
    func `a customer's read and erasure are about one node each, with two statements for each document`()
        async throws
    {
        let server = try TestPostgres(loading: "pg_stat_statements")
        try server.psql("postgres", "CREATE EXTENSION pg_stat_statements")
        let (database, store) = (try server.database(), try TestStore())
        try CitusStandIn.install(in: database)
        let ledger = Ledger(storage: try await database.storage())
        let app = AppIdentity(bundleId: "com.example", appAppleId: 1)
        var world = World(selling: [.subscription("month", Period(1, .month))], in: app, at: TestStore.start)
        var scope: LedgerScope?
        for _ in 0..<20 {
            _ = try world.sell("month")
            let notification = try store.signer.notification(
                try #require(world.occurrences.last), from: world.catalogue)
            let evidence = try await store.verifier().evidence(notification: notification, at: world.now)
            scope = evidence.scope
            _ = try await ledger.record([evidence], claimedBy: "anna", at: world.now)
        }
        let counted = "SELECT count(*) FROM quittance.documents"
        let documents = try #require(Int(try database.psql(counted)))
        #expect(documents >= 40)
        for erases in [false, true] {
            try server.psql("postgres", "SELECT pg_stat_statements_reset()")
            if erases {
                let report = try await ledger.delete("anna", in: #require(scope), at: world.now)
                #expect(report?.purchases == 20 && report?.erasedDocuments == documents)
            } else {
                let answer = try await ledger.customer("anna", in: #require(scope), at: world.now)
                #expect(answer?.ids == ["anna"])
            }
            let statements = try Self.statements(server).filter(Self.isAnswered)
            #expect(statements.count >= 2)
            for statement in statements { #expect(CitusPlan(statement).isOnOneNode, "\(statement)") }
        }
        #expect(try database.psql(counted) == "0")
        let calls = """
            SELECT sum(calls) FROM pg_stat_statements
            WHERE query ~ 'quittance.(documents|mentions)' AND query ~ 'digest ='
            """
        #expect(try server.psql("postgres", calls) == "\(2 * documents)")
    }

    /// A document of one chain, at its home, and an event.
    private static func add(_ number: Int, to key: ChainKey, through storage: PostgresLedgerStorage) async throws {
        let evidence = Evidence(.receipt, Array("\(number)".utf8), key.scope, nil) { name in
            ([], [RenewalFact(provenance: name, chain: key.name)])
        }
        let query = LedgerQuery([.chain(key), .document(evidence.provenance)], arriving: [evidence])
        let time = Timestamp(milliseconds: Int64(number))
        try await storage.commit(query) { snapshot in
            var changes = LedgerChanges()
            guard !snapshot.names.contains(evidence.provenance) else { return .commit(changes, ()) }
            changes.chains = [snapshot.chains[key] ?? ChainRecord(key)]
            changes.documents = [NewDocument(evidence, for: [key], receivedAt: time)]
            changes.events = [LedgerEvent(.purchased, in: key.scope, at: time, chainName: key.name)]
            return .commit(changes, ())
        }
    }

    @Test(.takesLong) func `with one of two nodes away, what lives on the other one is answered`() async throws {
        let database = try Self.database()
        let storage = try await database.storage()
        let keys = (0..<100).map { TroubleTests.key($0) }
        let here = try #require(try keys.first { try CitusStandIn.node(of: $0.name, in: database) == "1" })
        let away = try #require(try keys.first { try CitusStandIn.node(of: $0.name, in: database) == "2" })
        try await Self.add(1, to: here, through: storage)
        try await Self.add(2, to: away, through: storage)
        #expect(try await storage.events(of: here.scope.bundleId, after: nil, limit: 10).events.count == 2)
        try await storage.proveWritable()
        #expect(storage.condition.concern == nil && !storage.condition.isDegraded)

        try CitusStandIn.stop(2, in: database)
        // What waits for its number there cannot be read.
        try database.psql(
            """
            CREATE FUNCTION away() RETURNS boolean LANGUAGE plpgsql STABLE AS $$
                BEGIN RAISE EXCEPTION 'connection to the remote node failed' USING ERRCODE = '08006'; END $$;
            ALTER TABLE quittance.outbox RENAME TO waiting;
            CREATE VIEW quittance.outbox AS SELECT * FROM quittance.waiting WHERE public.away()
            """)
        try await storage.proveWritable()
        #expect(storage.condition.isDegraded)
        #expect(storage.condition.concern?.contains("1 of 2 nodes") == true)
        #expect(
            storage.condition.concern?.contains("worker-2:5432") == true
                && storage.condition.concern?.contains("worker-1") == false)
        // The second time it is known.
        for _ in 0..<2 { try await Self.add(3, to: here, through: storage) }
        await #expect(throws: LedgerStorageError.self) { try await Self.add(4, to: away, through: storage) }
        #expect(try await storage.load(LedgerQuery([.evidence(here)])).evidence[here]?.count == 2)
        #expect(try await storage.events(of: here.scope.bundleId, after: nil, limit: 10).events.count == 2)

        try CitusStandIn.stop(1, in: database)
        await #expect(throws: LedgerStorageError.self) { try await storage.proveWritable() }
        for node in [1, 2] { try CitusStandIn.start(node, in: database) }
        try database.psql("DROP VIEW quittance.outbox; ALTER TABLE quittance.waiting RENAME TO outbox")
        try await storage.proveWritable()
        #expect(try await storage.events(of: here.scope.bundleId, after: nil, limit: 10).events.count == 3)
        #expect(storage.condition.concern == nil && !storage.condition.isDegraded)
    }

    @Test func `documents of a ledger that is distributed later are found at their homes`() async throws {
        let database = try TestPostgres.database()
        _ = try await database.storage()
        try CitusStandIn.install(in: database)
        // One of two chains, one of a subscription that was migrated, and one of a chain alone.
        try database.psql(
            """
            INSERT INTO quittance.apps (bundle_id) VALUES ('com.example');
            INSERT INTO quittance.scopes (app, environment) VALUES (1, 'Production');
            INSERT INTO quittance.documents (signed_date, digest, home, scope, chain, kind, received_at, content)
            VALUES (1, sha256('1'), '10', 1, NULL, 'receipt', 1, ''),
                (2, sha256('2'), '10', 1, '11', 'receipt', 1, ''), (3, sha256('3'), '11', 1, '11', 'receipt', 1, '');
            INSERT INTO quittance.mentions (home, scope, signed_date, digest)
            VALUES ('10', 1, 1, sha256('1')), ('11', 1, 1, sha256('1'))
            """)
        let storage = try await database.storage()
        let keys = ["10", "11"].map { ChainKey($0, in: TroubleTests.scope) }
        func evidence() async throws -> [[Int64]] {
            let found = try await storage.load(LedgerQuery(keys.map(LedgerKey.evidence))).evidence
            return keys.map { (found[$0] ?? []).map(\.name.signedDate.milliseconds) }
        }
        #expect(try await evidence() == [[1], [1, 2, 3]])
        #expect(try database.psql(Self.unusableFunctions) == "")
        let table = "SELECT partmethod FROM pg_dist_partition WHERE logicalrelid = 'quittance.proof'::regclass"
        #expect(try database.psql(table) == "one")
        for (key, left) in zip(keys.reversed(), [[[1], []], [[], []]] as [[[Int64]]]) {
            try await storage.commit(LedgerQuery([.chain(key), .evidence(key)])) { _ in
                var changes = LedgerChanges()
                changes.erasedChains = [key]
                return .commit(changes, ())
            }
            #expect(try await evidence() == left)
        }
        #expect(try database.psql("SELECT count(*) FROM quittance.documents") == "0")
        try await storage.proveWritable()
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
        ("SELECT id FROM quittance.apps WHERE bundle_id = $1", true),
        ("INSERT INTO quittance.apps (bundle_id) VALUES ($1) ON CONFLICT DO NOTHING", false),
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

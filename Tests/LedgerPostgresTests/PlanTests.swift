// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import PurchaseLedger
import TestData
import TestPostgres
import Testing

@testable import LedgerPostgres

/// Tests that PostgreSQL keeps the plans of what servers do often. It plans a prepared statement anew each time if it
/// expects that to pay, which for these takes longer than to run them.
@Suite(.needsPostgres) struct PlanTests {
    @Test(.takesLong, arguments: [1, 3, 5])
    func `no statement of an intake is planned each time`(documents: Int) async throws {
        let server = try TestPostgres(loading: "pg_stat_statements")
        try server.psql("postgres", "CREATE EXTENSION pg_stat_statements")
        try server.psql("postgres", "ALTER SYSTEM SET pg_stat_statements.track_planning = on")
        let database = try server.database()
        // A new connection has the setting.
        try server.psql("postgres", "SELECT pg_reload_conf()")
        let storage = try await database.storage { $0.connections = 1 }
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
        for number in 0..<40 {
            // Each comes twice.
            for _ in 0..<2 { try await Self.add(number, documents, at: now, through: storage) }
            _ = try await storage.events(of: TroubleTests.scope.bundleId, after: nil, limit: 10)
        }
        let columns = "calls, plans, regexp_replace(query, E'\\\\s+', ' ', 'g')"
        let found = try server.psql(
            "postgres",
            "SELECT \(columns) FROM pg_stat_statements WHERE calls >= 40 AND query LIKE '%$1%' ORDER BY plans DESC")
        let statements = found.split(separator: "\n").map { $0.split(separator: "|", maxSplits: 2) }
        #expect(statements.contains { $0[2].contains("FROM quittance.documents") })
        // Five plans are made before PostgreSQL compares them with one that it would keep, and statistics arrive.
        for statement in statements { #expect(Int(statement[1]) ?? .max <= 20, "\(statement)") }
    }

    @Test(.takesLong) func `the search for due work takes two statements, however many apps the ledger lacks`()
        async throws
    {
        let server = try TestPostgres(loading: "pg_stat_statements")
        try server.psql("postgres", "CREATE EXTENSION pg_stat_statements")
        let storage = try await server.database().storage()
        let lanes = (0..<100).flatMap { app in
            [Environment.production, .sandbox].map { environment in
                RecordLane(.grantEnd, of: .scope(LedgerScope(bundleId: "app \(app)", environment: environment)))
            }
        }
        let now = Timestamp(milliseconds: 0)
        _ = try await storage.due(in: lanes, at: now, limit: 10)
        try server.psql("postgres", "SELECT pg_stat_statements_reset()")
        for _ in 0..<10 { #expect(try await storage.due(in: lanes, at: now, limit: 10) == DueWork()) }
        let calls = try server.psql(
            "postgres", "SELECT sum(calls) FROM pg_stat_statements WHERE query LIKE '%quittance.%'")
        #expect(calls == "20")
    }

    /// A plan for many rows that reads a table whole takes as long as the table is large, for each page of a copy.
    @Test(.takesLong, arguments: [1, 3, 500])
    func `a page of documents is looked up by indexes in a large ledger`(
        count: Int
    ) async throws {
        let database = try TestPostgres.database()
        _ = try await database.storage()
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        try database.psql(
            """
            INSERT INTO quittance.apps (bundle_id) VALUES ('com.example');
            INSERT INTO quittance.scopes (app, environment) VALUES (1, 'Production');
            INSERT INTO quittance.documents (signed_date, digest, home, scope, chain, kind, received_at, content)
            SELECT \(now) + n, sha256(n::text::bytea), n / 2, 1, CASE n % 10 WHEN 0 THEN NULL ELSE n / 2 END,
                'transaction', 0, '' FROM generate_series(1, 100000) AS n;
            INSERT INTO quittance.mentions (home, scope, signed_date, digest)
            SELECT n / 2 + m, 1, \(now) + n, sha256(n::text::bytea)
            FROM generate_series(10, 100000, 10) AS n, generate_series(0, 9) AS m;
            INSERT INTO quittance.pieces
            SELECT substr(sha256(n::text::bytea), 1, 16), '' FROM generate_series(1, 100000) AS n;
            ANALYZE
            """)
        let scope = LedgerScope(bundleId: "com.example", environment: .production)
        let names = (0..<count).map { number in
            Provenance(
                signedDate: Timestamp(milliseconds: now + Int64(number)),
                digest: DocumentDigest(Array("\(number)".utf8)))
        }
        var readSet = ReadSet(keys: Set(names.map(LedgerKey.content)))
        for name in names {
            readSet.dependencies.formUnion([
                .part(.document(name)), .part(.sharedBlob(Array(name.digest.bytes.prefix(16)))),
            ])
        }
        readSet.keys.formUnion((0..<count).map { .evidence(ChainKey("\($0)", in: scope)) })
        // There are no chains, so that their table is read whole.
        let statements = LoadPlan(readSet, ScopeNumbers(), homes: nil).statements.filter {
            !$0.sql.contains("quittance.chains")
        }
        #expect(statements.count == 4)
        let quarter = try database.psql(
            "SELECT relname FROM pg_class WHERE oid = (SELECT tableoid FROM quittance.documents LIMIT 1)")
        for statement in statements {
            let values = Array(repeating: "NULL", count: statement.parameters.count).joined(separator: ", ")
            let plan = try database.psql(
                """
                SET plan_cache_mode = force_generic_plan;
                PREPARE page AS \(statement.sql);
                EXPLAIN (COSTS OFF) EXECUTE page (\(values))
                """)
            #expect(plan.contains("Index"), "\(plan)")
            // The tables of other quarters are empty.
            for table in [quarter, "mentions", "pieces"] {
                #expect(!plan.contains("Seq Scan on \(table)"), "\(plan)")
            }
        }
    }

    /// Adds documents about one chain.
    private static func add(
        _ number: Int, _ count: Int, at now: Timestamp, through storage: PostgresLedgerStorage
    ) async throws {
        let (scope, key) = (TroubleTests.scope, TroubleTests.key(number % 4))
        let documents = (0..<count).map { place in
            Evidence(.transaction, Array("\(number) \(place)".utf8), scope, now) { _ in ([], []) }
        }
        let query = LedgerQuery(
            documents.map { .document($0.provenance) } + [.chain(key)], arriving: documents)
        try await storage.commit(query) { snapshot in
            var changes = LedgerChanges()
            changes.chains = [snapshot.chains[key] ?? ChainRecord(key)]
            changes.documents = documents.map { NewDocument($0, for: [key], receivedAt: now) }
            changes.events = [
                LedgerEvent(.purchased, in: scope, at: now, chainName: key.name)
            ]
            return .commit(changes, ())
        }
    }
}

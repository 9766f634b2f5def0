// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import PurchaseLedger
import TestPostgres
import Testing

@testable import LedgerPostgres

/// Tests that PostgreSQL keeps the plans of what servers do often. It plans a prepared statement anew each time if it
/// expects that to pay, which for these takes longer than to run them.
@Suite(.needsPostgres) struct PlanTests {
    @Test(arguments: [1, 3, 5]) func `no statement of an intake is planned each time`(documents: Int) async throws {
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

    /// Adds documents about one chain.
    private static func add(
        _ number: Int, _ count: Int, at now: Timestamp, through storage: PostgresLedgerStorage
    ) async throws {
        let (scope, key) = (TroubleTests.scope, TroubleTests.key(number % 4))
        let documents = (0..<count).map { place in
            Evidence(.transaction, Array("\(number) \(place)".utf8), scope, now) { _ in ([], []) }
        }
        let query = LedgerQuery {
            ($0.chains, $0.names, $0.arriving) = ([key], Set(documents.map(\.provenance)), documents)
        }
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

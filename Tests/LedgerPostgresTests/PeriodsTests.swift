// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import GRDB
import LedgerPostgres
import LedgerSQLite
import PurchaseLedger
import TestData
import TestPostgres
import TestWorld
import Testing

/// Tests the view `periods`, which docs/postgresql.md documents for use with `psql`.
@Suite(.needsPostgres) struct PostgresPeriodsTests {
    /// The columns in SQLite; PostgreSQL has the same with underscores.
    private static let columns = [
        "customer", "bundleId", "environment", "originalTransactionId", "transactionId", "productId", "type",
        "purchaseDate", "expiresDate", "quantity", "offerType", "isUpgraded", "revocationDate", "price", "currency",
    ]

    private static func underscored(_ name: String) -> String {
        name.reduce(into: "") { $0 += $1.isUppercase ? "_\($1.lowercased())" : "\($1)" }
    }

    private static func periods(in database: TestDatabase) throws -> Set<String> {
        let columns = columns.map { "coalesce(\(underscored($0))::text, '-')" }
        let lines = try database.psql(
            "SELECT concat_ws(' ', \(columns.joined(separator: ", "))) FROM quittance.periods")
        return Set(lines.split(separator: "\n").map(String.init))
    }

    private static func periods(inFile path: String) async throws -> Set<String> {
        let columns = columns.map { "coalesce(\($0), '-')" }.joined(separator: " || ' ' || ")
        return try await DatabaseQueue(path: path).read {
            Set(try String.fetchAll($0, sql: "SELECT \(columns) FROM periods"))
        }
    }

    /// Families, refunds, upgrades, consumables, receipts, migrated and erased chains. What the file's view does not
    /// know of an erased purchase that was presented again does not occur.
    @Test(.takesLong) func `periods in a database and in a file are the same for the same ledger`() async throws {
        let folder = try TemporaryFolder()
        let (path, store) = (folder.path("ledger"), try TestStore())
        let file = try SQLiteLedgerStorage(path: path)
        try await FilledLedger.fill(file, of: store)
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        try await FilledLedger.fill(storage, of: store)
        try file.close()
        let (inFile, inDatabase) = (try await Self.periods(inFile: path), try Self.periods(in: database))
        #expect(inFile.count > 15)
        #expect(inFile.subtracting(inDatabase) == [])
        #expect(inDatabase.subtracting(inFile) == [])
        #expect(try database.psql("SELECT count(*) FROM quittance.periods WHERE revocation_date IS NOT NULL") != "0")
        #expect(try database.psql("SELECT count(*) FROM quittance.periods WHERE customer IS NOT NULL") != "0")
    }

    @Test func `periods follow a newer statement, another owner and an erasure`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        let scope = LedgerScope(bundleId: "com.example", environment: .production)
        let key = ChainKey("1", in: scope)
        func put(_ id: String, signed: Int64, owner: Int64?, revoked: Int64?) async throws {
            try await storage.commit(LedgerQuery([.chain(key)])) { snapshot in
                var record = snapshot.chains[key] ?? ChainRecord(key)
                let name = Provenance(signedDate: Timestamp(milliseconds: signed), digest: DocumentDigest([]))
                var statement = TransactionStatement(
                    source: .signedTransaction, provenance: name, transactionId: id, chain: "1",
                    productId: "month")
                statement.revocation = revoked.map { .init(date: Timestamp(milliseconds: $0)) }
                record.chain.merge(statement)
                var changes = LedgerChanges()
                if let owner {
                    let customer = Customer(number: owner, bundleId: scope.bundleId)
                    changes.customers = [CustomerRecord(customer, ids: ["customer \(owner)", "other \(owner)"])]
                    record.owners = [ChainRecord.Owner(customer, .claim)]
                }
                changes.chains = [record]
                return .commit(changes, ())
            }
        }
        func rows() throws -> [String] {
            let columns = "concat_ws(' ', customer, transaction_id, coalesce(revocation_date, 0))"
            return try database.psql("SELECT \(columns) FROM quittance.periods ORDER BY transaction_id").split(
                separator: "\n"
            )
            .map(String.init)
        }
        try await put("1", signed: 5, owner: nil, revoked: nil)
        #expect(try rows() == ["1 0"])
        try await put("2", signed: 5, owner: 7, revoked: nil)
        #expect(try rows() == ["customer 7 1 0", "customer 7 2 0"])
        try await put("1", signed: 6, owner: 8, revoked: 9)
        try await put("2", signed: 4, owner: 8, revoked: 9)
        #expect(try rows() == ["customer 8 1 9", "customer 8 2 0"])
        try await storage.commit(LedgerQuery([.chain(key)])) { _ in
            var changes = LedgerChanges()
            changes.chains = [ChainRecord(key)]
            return .commit(changes, ())
        }
        #expect(try rows() == [])
    }
}

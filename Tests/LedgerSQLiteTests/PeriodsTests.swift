// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import GRDB
import LedgerSQLite
import PurchaseLedger
import Testing

/// The view that docs/ledger.md promises to people with a `sqlite3` shell.
@Suite struct PeriodsTests {
    private static let columns = """
        customer, bundleId, environment, originalTransactionId, transactionId, productId, type, purchaseDate, expiresDate,
        quantity, offerType, isUpgraded, revocationDate
        """

    @Test
    func `periods has a row for each transaction: what the newest document says, and the first id of the first owner`()
        async throws
    {
        let folder = try TemporaryFolder()
        let storage = try SQLiteLedgerStorage(path: folder.path())
        try await storage.commit { changes in
            changes.customers = [(1, ["anna", "a"]), (2, ["bert"])].map { number, ids in
                CustomerRecord(Customer(number: number, bundleId: AppStore.bundleId), ids: ids)
            }
            var record = ChainRecord(ChainKey("1", in: AppStore.scope))
            record.owners = changes.customers.map { ChainRecord.Owner($0.customer, .claim) }
            // Of each: when a signed transaction and when a receipt was signed.
            for (id, signed, receipt) in [("1", 5, 4), ("2", 5, 5), ("3", 5, 6), ("4", 5, nil), ("5", nil, 5)]
                as [(String, Int64?, Int64?)]
            {
                if let signed { record.chain.merge(Self.statement(id, .signedTransaction, signed)) }
                if let receipt { record.chain.merge(Self.statement(id, .receipt, receipt)) }
            }
            var unowned = ChainRecord(ChainKey("9", in: AppStore.scope))
            unowned.chain.merge(Self.statement("9", .receipt, 1))
            changes.chains = [record, unowned]
        }
        try storage.close()
        let rows = try await DatabaseQueue(path: folder.path()).read { database in
            try Row.fetchAll(
                database,
                sql: """
                    SELECT transactionId, productId, customer, json_array(\(Self.columns)) AS "all"
                    FROM periods ORDER BY transactionId
                    """)
        }
        #expect(rows.map { $0["transactionId"] } == ["1", "2", "3", "4", "5", "9"])
        #expect(rows.map { $0["productId"] } == ["signed", "signed", "receipt", "signed", "receipt", "receipt"])
        #expect(rows.map { $0["customer"] } == ["anna", "anna", "anna", "anna", "anna", nil] as [String?])
        #expect(
            rows.first?["all"] == """
                ["anna","\(AppStore.bundleId)","Production","1","1","signed","Auto-Renewable Subscription",10,20,1,null,0,15]
                """)
    }

    private static func statement(
        _ id: String, _ source: TransactionStatement.Source, _ signed: Int64
    ) -> TransactionStatement {
        var statement = TransactionStatement(
            source: source,
            provenance: Provenance(signedDate: Timestamp(milliseconds: signed), evidence: EvidenceID([])),
            transactionId: id, originalTransactionId: id == "9" ? "9" : "1",
            productId: source == .receipt ? "receipt" : "signed")
        statement.type = Open(.autoRenewableSubscription)
        statement.purchaseDate = Timestamp(milliseconds: 10)
        statement.expiresDate = Timestamp(milliseconds: 20)
        statement.revocation = TransactionStatement.Revocation(date: Timestamp(milliseconds: 15))
        return statement
    }
}

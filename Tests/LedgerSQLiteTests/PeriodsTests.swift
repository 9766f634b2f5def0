// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import GRDB
import LedgerSQLite
import PurchaseLedger
import TestData
import Testing

/// Tests the view `periods`, which docs/ledger.md documents for use in a `sqlite3` shell.
@Suite struct PeriodsTests {
    private static let columns = """
        customer, bundleId, environment, originalTransactionId, transactionId, productId, type, purchaseDate,
        expiresDate, quantity, offerType, isUpgraded, revocationDate
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
            // For each transaction: when its signed transaction and its receipt were signed.
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
        let rows = try DatabaseQueue(path: folder.path()).read { database in
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

    /// The columns of a transaction in which a signed transaction and a receipt may differ.
    private struct DecidedColumns: Equatable {
        var (productId, type): (String, String?)
        var (revocationDate, price): (Int64?, Int64?)
        var (currency, offerType, isUpgraded): (String?, Int?, Bool)

        init(_ row: Row) {
            (productId, type) = (row["productId"], row["type"])
            (revocationDate, price) = (row["revocationDate"], row["price"])
            (currency, offerType, isUpgraded) = (row["currency"], row["offerType"], row["isUpgraded"])
        }

        init(_ statement: TransactionStatement) {
            (productId, type) = (statement.productId, statement.type?.rawValue)
            (revocationDate, price) = (statement.revocation?.date.milliseconds, statement.price)
            (currency, isUpgraded) = (statement.currency, statement.isUpgraded)
            offerType = statement.offerType?.rawValue
        }
    }

    /// Every combination of what decides: which document is newer, an upgrade, a revocation in either, the type in
    /// either.
    private static func facts() -> [TransactionFact] {
        var facts: [TransactionFact] = []
        for bits in 0..<192 {
            func has(_ bit: Int) -> Bool { bits >> bit & 1 == 1 }
            let key = TransactionKey("\(1000 + bits)", in: AppStore.scope)
            var signed = statement(key.transactionId, .signedTransaction, 5)
            var receipt = statement(key.transactionId, .receipt, has(0) ? 6 : 4)
            (signed.isUpgraded, signed.price, signed.currency) = (has(1), 9990, "USD")
            (signed.type, receipt.type) = (Open(has(2) ? .consumable : .autoRenewableSubscription), nil)
            if has(3) { signed.revocation = nil }
            if has(4) { receipt.revocation = nil } else { receipt.revocation?.date = Timestamp(milliseconds: 16) }
            if has(5) { (signed.offerType, receipt.type) = (Open(.promotional), signed.type) }
            // Both, the receipt alone, or the signed transaction alone.
            var fact = TransactionFact(key, bits >> 6 == 1 ? receipt : signed)
            if bits >> 6 == 0 { fact.merge(receipt) }
            facts.append(fact)
        }
        return facts
    }

    @Test func `periods has the values of the ledger's answers if receipts and signed transactions differ`()
        async throws
    {
        let folder = try TemporaryFolder()
        let storage = try SQLiteLedgerStorage(path: folder.path())
        let facts = Self.facts()
        try await storage.commit { changes in
            var record = ChainRecord(ChainKey("1", in: AppStore.scope))
            for fact in facts {
                for statement in [fact.signed, fact.receipt].compactMap(\.self) { record.chain.merge(statement) }
            }
            changes.chains = [record]
        }
        try storage.close()
        let rows = try DatabaseQueue(path: folder.path()).read {
            try Row.fetchAll($0, sql: "SELECT * FROM periods ORDER BY transactionId")
        }
        try #require(rows.count == facts.count)
        for (row, fact) in zip(rows, facts) {
            #expect(row["transactionId"] == fact.key.transactionId)
            #expect(DecidedColumns(row) == fact.current.map(DecidedColumns.init), "\(fact)")
        }
    }

    private static func statement(
        _ id: String, _ source: TransactionStatement.Source, _ signed: Int64
    ) -> TransactionStatement {
        var statement = TransactionStatement(
            source: source,
            provenance: Provenance(signedDate: Timestamp(milliseconds: signed), digest: DocumentDigest([])),
            transactionId: id, chain: id == "9" ? "9" : "1",
            productId: source == .receipt ? "receipt" : "signed")
        statement.type = Open(.autoRenewableSubscription)
        statement.purchaseDate = Timestamp(milliseconds: 10)
        statement.expiresDate = Timestamp(milliseconds: 20)
        statement.revocation = TransactionStatement.Revocation(date: Timestamp(milliseconds: 15))
        return statement
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
package import PurchaseLedger
package import ReceiptCoding

/// A subscription with many periods, as a tester of the sandbox has it after months. Its facts are put into a storage
/// as genuine documents would put them there; the documents themselves are left out.
package enum LongHistory {
    /// The chain with the original transaction id `original`, a month for each period from day 0 on.
    package static func chain(_ original: String = "1", periods: Int, in scope: LedgerScope) -> ChainRecord {
        var record = ChainRecord(ChainKey(original, in: scope))
        for number in 0..<periods {
            let (start, id) = (30 * Double(number), number == 0 ? original : period(number, of: original))
            let digest = DocumentDigest(Array("\(original) \(number)".utf8))
            var statement = TransactionStatement(
                source: .signedTransaction, provenance: Provenance(signedDate: TestStore.day(start), digest: digest),
                transactionId: id, chain: original, productId: "month")
            statement.type = Open(.autoRenewableSubscription)
            statement.subscriptionGroup = "21000001"
            (statement.purchaseDate, statement.expiresDate) = (TestStore.day(start), TestStore.day(start + 30))
            statement.ownership = Open(.purchased)
            statement.appAccountToken = "7e3fb20b-4cdb-47cc-936d-99d65f608138"
            statement.webOrderLineItemId = "\(2_000_000_000_000_000 + number)"
            statement.transactionReason = Open(number == 0 ? .purchase : .renewal)
            (statement.price, statement.currency, statement.storefront) = (9990, "USD", "USA")
            record.chain.merge(statement)
        }
        return record
    }

    /// The transaction id of a period after the first one.
    package static func period(_ number: Int, of original: String) -> String { "\(original)\(100_000 + number)" }

    /// A receipt from the first day of a history.
    package static func receipt(_ original: String = "1") -> AppReceipt {
        var purchase = TestStore.purchase(original)
        purchase.originalPurchaseDate = purchase.purchaseDate
        return TestStore.receipt([purchase])
    }

    /// Puts a chain into a storage.
    package static func put(_ record: ChainRecord, into storage: any LedgerStorage) async throws {
        try await storage.commit(LedgerQuery([.chain(record.key)])) { _ in
            var changes = LedgerChanges()
            changes.chains = [record]
            return .commit(changes, ())
        }
    }
}

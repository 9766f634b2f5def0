// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
package import Reconciliation

/// The JSON of the transactions that the App Store returned for an order, or as a customer's refunds.
package struct FoundTransactionsBody: Encodable, Sendable {
    /// The number of new documents in the ledger.
    var recorded: Int
    /// The number of documents without new facts: the ledger already had the document, or the same facts from other
    /// documents.
    var alreadyKnown: Int
    /// The number of documents in the App Store's answers that the server refused as invalid.
    var refused: Int
    /// The fault of the first refused document; absent if the server refused no document.
    var refusal: String?
    /// The found transactions, except transactions of erased customers.
    var transactions: [PurchaseBody] = []

    /// - Throws: `LedgerStorageError`.
    package init(_ found: FoundTransactions, in reconciler: Reconciler) async throws {
        recorded = found.report.recorded
        alreadyKnown = found.report.alreadyKnown
        refused = found.report.refused
        refusal = found.report.refusal
        let ledger = reconciler.ledger
        let scope = reconciler.scope
        for id in found.transactionIds {
            // The ledger has no facts about the purchases of an erased customer, so they are skipped.
            guard let chain = try await ledger.chain(of: TransactionKey(id, in: scope)),
                var body = PurchaseBody(id, of: chain, ledger.rules.catalogue(scope), at: reconciler.now())
            else { continue }
            body.customers = try await ledger.ownerIds(of: chain.key)
            transactions.append(body)
        }
    }
}

/// The JSON of a purchase and its new account.
package struct AppAccountTokenBody: Encodable, Sendable {
    /// The original transaction id, by which the App Store was asked.
    var originalTransactionId: String
    /// The new account of the purchase: a UUID.
    var appAccountToken: String

    package init(originalTransactionId: String, appAccountToken: String) {
        self.originalTransactionId = originalTransactionId
        self.appAccountToken = appAccountToken
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
package import Reconciliation

/// The JSON of the transactions that the App Store found.
package struct FoundTransactionsBody: Encodable, Sendable {
    /// How many documents the ledger has more than before.
    var recorded: Int
    /// How many documents the ledger had, or say nothing new.
    var alreadyKnown: Int
    /// How many documents of the App Store were not valid.
    var refused: Int
    /// Why the first of the refused documents was not valid; absent if none was refused.
    var refusal: String?
    /// The transactions that were found.
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
            // The ledger has no facts about a customer that was erased.
            guard let chain = try await ledger.chain(of: TransactionKey(id, in: scope)),
                let body = PurchaseBody(id, of: chain, ledger.rules.catalogue(scope))
            else { continue }
            transactions.append(body)
        }
    }
}

/// The JSON of a purchase whose account was set.
package struct AppAccountTokenBody: Encodable, Sendable {
    /// The original transaction id in the request.
    var originalTransactionId: String
    /// The account that the purchase has now: a UUID.
    var appAccountToken: String

    package init(originalTransactionId: String, appAccountToken: String) {
        self.originalTransactionId = originalTransactionId
        self.appAccountToken = appAccountToken
    }
}

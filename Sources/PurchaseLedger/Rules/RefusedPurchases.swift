// SPDX-License-Identifier: Apache-2.0

// Purchases that the operator refuses, for example because of a chargeback, or because copies of the purchase's
// document are in circulation.

extension Catalogue {
    /// Whether the operator refuses a purchase. A purchase is refused if it is denied (``Chain/denial``), or if
    /// ``refusedPurchases`` has its original transaction id, an id from before a migration, or the id of any of its
    /// transactions.
    ///
    /// A refused purchase grants nothing, a refused subscription is `revoked`, and refused consumables count as
    /// revoked. Signed facts about the purchase are still recorded and shown.
    public func refuses(_ chain: Chain) -> Bool {
        if chain.denial != nil { return true }
        guard !refusedPurchases.isEmpty else { return false }
        // Residue counts too: after an erasure, a customer may present the purchase again, with a document that does
        // not contain the refused id.
        return refuses([chain.key.originalTransactionId]) || refuses(chain.predecessors)
            || refuses(chain.transactions.keys) || refuses(chain.residue.keys)
    }

    /// Whether the operator refuses a purchase with these ids. A single document may have only some of the purchase's
    /// ids, so also call ``refuses(_:)`` with the chain if the ledger knows it.
    package func refuses(_ ids: some Sequence<String>) -> Bool { ids.contains { refusedPurchases.hasExactly($0) } }
}

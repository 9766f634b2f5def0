// SPDX-License-Identifier: Apache-2.0

// Purchases that the operator refuses, for example because they were bought with a stolen card. The App Store refuses
// the purchases of a deleted account in the same way.

extension Catalogue {
    /// Whether the operator refuses a purchase: ``refusedPurchases`` has its original transaction id, one that it had
    /// before a migration, or the id of one of its transactions.
    ///
    /// A refused purchase grants nothing, a refused subscription is `revoked`, and refused consumables count as taken
    /// back. What the App Store signed about the purchase is recorded and shown all the same.
    public func refuses(_ chain: Chain) -> Bool {
        guard !refusedPurchases.isEmpty else { return false }
        // Residue counts too: an erased customer may present the purchase again, with other transactions.
        return refuses([chain.key.originalTransactionId]) || refuses(chain.predecessors)
            || refuses(chain.transactions.keys) || refuses(chain.residue.keys)
    }

    /// Whether the operator refuses the purchase that one of these ids names. A document has some of a purchase's ids,
    /// and the ledger may know more: ask ``refuses(_:)`` as well.
    package func refuses(_ ids: some Sequence<String>) -> Bool { !refusedPurchases.isDisjoint(with: ids) }
}

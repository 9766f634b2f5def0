// SPDX-License-Identifier: Apache-2.0

// Purchases that the operator refuses, for example because of payment with a stolen card. The App Store refuses the
// purchases of a deleted account in the same way.

extension Catalogue {
    /// Whether the operator refuses a purchase. A purchase is refused if ``refusedPurchases`` has its original
    /// transaction id, an id from before a migration, or the id of any of its transactions.
    ///
    /// A refused purchase grants nothing, a refused subscription is `revoked`, and refused consumables count as
    /// revoked. Signed facts about the purchase are still recorded and shown.
    public func refuses(_ chain: Chain) -> Bool {
        guard !refusedPurchases.isEmpty else { return false }
        // Residue counts too, because an erased customer may present the purchase again with other transactions.
        return refuses([chain.key.originalTransactionId]) || refuses(chain.predecessors)
            || refuses(chain.transactions.keys) || refuses(chain.residue.keys)
    }

    /// Whether the operator refuses a purchase with these ids. A document has only some of a purchase's ids, and the
    /// ledger may know more. Therefore also call ``refuses(_:)`` with the chain.
    package func refuses(_ ids: some Sequence<String>) -> Bool { !refusedPurchases.isDisjoint(with: ids) }
}

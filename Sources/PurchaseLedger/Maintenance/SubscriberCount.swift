// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// Counts the subscriptions affected by a change for all subscribers of a product.

extension Ledger {
    /// Counts the active subscriptions of a product, without those shared by a family member. If the App Store extends
    /// the renewal dates of all active subscribers, it extends these subscriptions, and any that this ledger does not
    /// know.
    ///
    /// The method reads all chains (see ``Chain``) of the ledger, page by page.
    ///
    /// - Throws: ``LedgerStorageError``, also if a chain is damaged.
    public func activeSubscriptions(
        of productId: String, in scope: LedgerScope, at now: Timestamp
    ) async throws -> Int {
        let catalogue = rules.catalogue(scope)
        var count = 0
        var cursor: ScanCursor?
        repeat {
            // The same page size as in ``check(by:onDocuments:)``.
            let page = try await storage.chains(.all, after: cursor, limit: 500)
            if let damage = page.damage.first { throw LedgerStorageError(.damaged, damage) }
            let keys = Set(page.items.filter { $0.scope == scope })
            // A migrated chain is counted under the name of its successor.
            let records = try await storage.load(LedgerQuery(keys.map(LedgerKey.chain))).chains.values
            count += records.count { record in
                guard record.successor == nil, record.hasFacts,
                    let state = record.chain.subscription(catalogue, at: now)
                else { return false }
                return state.status == .active && state.governing.productId == productId
                    && state.governing.ownership != .familyShared
            }
            cursor = page.next
        } while cursor != nil
        return count
    }
}

// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// Decides for each purchase in a chain whether it gives access by itself, and until when.

extension Chain {
    /// The access that each purchase gives at `now`, by transaction id.
    public func access(_ catalogue: Catalogue, at now: Timestamp) -> [String: Access] {
        let history = history(catalogue, at: now)
        return history.access(history.subscription(renewal))
    }
}

extension PurchaseHistory {
    /// The access that each purchase gives, by transaction id. A customer may have it by another purchase too.
    ///
    /// - Parameter state: The subscription's state at `now`; `nil` if the chain is not a subscription.
    func access(_ state: SubscriptionState?) -> [String: Access] {
        var access: [String: Access] = [:]
        access.reserveCapacity(purchases.count)
        let counted = Set(purchases.indices.map { purchases[$0].transactionId })
        for (period, transactionIds, isSuperseded) in allPeriods {
            var given = isSuperseded ? .ended(period.date) : self.access(of: period, state)
            // A renewal that was charged ahead, and then refunded or superseded, never gave access.
            if !given.isGiven { given.until = given.until.map { min($0, now) } }
            for id in transactionIds where counted.contains(id) { access[id] = given }
        }
        for index in purchases.indices where !purchases[index].isSubscription {
            access[purchases[index].transactionId] = self.access(of: purchases[index])
        }
        if let app { access[app.transactionId] = self.access(of: app) }
        return access
    }

    /// The access that a period gives, if it was not superseded.
    private func access(of period: TransactionStatement, _ state: SubscriptionState?) -> Access {
        if isRefused { return .ended(period.date) }
        if period.revocation != nil { return Access(lost: period) }
        if let state, state.governing.transactionId == period.transactionId, state.status != .active {
            return state.access
        }
        // A renewal that was charged ahead gives access from its date on. Until then that is no end.
        guard hasBegun(period) || state?.governing == period else { return .ended(period.date) }
        return Access(until: period.expiresDate, at: now)
    }

    /// The access that a purchase gives, if it is no period of a subscription.
    func access(of purchase: TransactionStatement) -> Access {
        if isRefused { return .ended(purchase.date) }
        if purchase.type == .consumable {
            let isUsable = purchase.revokedQuantity.map { $0 < purchase.quantity } ?? true
            return isUsable ? .given(until: nil) : Access(lost: purchase)
        }
        if purchase.type == .nonRenewingSubscription {
            var period = purchase
            period.expiresDate = nonRenewingEnd(of: purchase)
            return period.revocation == nil ? Access(until: period.expiresDate, at: now) : Access(lost: period)
        }
        // All transactions of a non-consumable are the same purchase.
        let whole = purchase.isAppPurchase ? purchase : nonConsumable ?? purchase
        return whole.revocation == nil ? Access(until: whole.expiresDate, at: now) : Access(lost: whole)
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The grant of one purchase at one instant: all entitlements of its product, or of the catalogue's rules for the app's
/// own purchase.
struct Grant {
    var statement: TransactionStatement
    var reason: Entitlement.Reason
    /// The end of the grant; `nil` for no end.
    var until: Timestamp?
    /// The periods that were charged ahead and have not begun, in the order of their purchase.
    var prepaid: [TransactionStatement] = []

    /// The subscription group in which only the best grant counts; `nil` if the grant counts in any case.
    var group: String? {
        guard statement.isSubscription, let group = statement.subscriptionGroup, !group.isEmpty else { return nil }
        return group
    }

    /// The latest end among the grant's entitlements; `nil` for no end.
    func lastEnd(_ catalogue: Catalogue) -> Timestamp? {
        guard !prepaid.isEmpty, until != nil else { return until }
        let ends = catalogue.products[exactly: statement.productId]?.entitlements.map { end(of: $0, catalogue) } ?? []
        return ends.contains(nil) ? nil : ends.compactMap(\.self).max() ?? until
    }

    /// The end of the entitlement `name`. Periods that were charged ahead extend the entitlement if their products also
    /// grant the entitlement.
    func end(of name: String, _ catalogue: Catalogue) -> Timestamp? {
        let granting = prepaid.filter {
            catalogue.products[exactly: $0.productId]?.entitlements.contains(name) ?? false
        }
        return granting.reduce(until) { end, period in
            end.map { period.continues(after: $0) ? period.end : $0 }
        }
    }
}

extension Chain {
    /// Whether the purchase is in force at `now`. A product outside the catalogue counts too: a copied document must
    /// not move a purchase because the configuration lacks its product.
    func isEntitling(_ catalogue: Catalogue, at now: Timestamp) -> Bool {
        let history = history(catalogue, at: now)
        return !history.grants(history.subscription(renewal)).isEmpty
    }
}

extension PurchaseHistory {
    /// All grants of the chain; empty if the operator refuses the chain. A purchase of the app is a grant even
    /// if the catalogue gives nothing for it, because it is in force.
    ///
    /// - Parameter state: The subscription's state at `now`; `nil` if the chain is not a subscription.
    func grants(_ state: SubscriptionState?) -> [Grant] {
        guard !isRefused else { return [] }
        var grants = state.map { periodGrants($0) } ?? []
        for index in purchases.indices where purchases[index].type == .nonRenewingSubscription {
            let access = access(of: purchases[index])
            guard access.isGiven else { continue }
            grants.append(Grant(statement: purchases[index], reason: .purchase, until: access.until))
        }
        if let nonConsumable, nonConsumable.revocation == nil {
            grants.append(Grant(statement: nonConsumable, reason: .purchase))
        }
        if let app, access(of: app).isGiven {
            grants.append(Grant(statement: app, reason: .appPurchase, until: app.expiresDate))
        }
        // Receipts do not name the group. All subscription periods of a chain are in the same group, so the group is
        // taken from any statement that names it.
        let group = purchases.indices.lazy.compactMap { purchases[$0].subscriptionGroup }.first
        for index in grants.indices where grants[index].statement.subscriptionGroup == nil {
            grants[index].statement.subscriptionGroup = group
        }
        return grants
    }

    /// The grants of the running periods, and of the grace period or ``Catalogue/staleLeeway`` after the
    /// governing period (``SubscriptionState/governing``). A renewal that has not begun only extends these grants; but
    /// if it is the governing period, it has a grant of its own.
    private func periodGrants(_ state: SubscriptionState) -> [Grant] {
        var grants: [Grant] = []
        var prepaid: [TransactionStatement] = []
        for index in periods.indices where now < periods[index].end && periods[index].revocation == nil {
            let isAhead = !hasBegun(periods[index])
            if isAhead { prepaid.append(periods[index]) }
            guard !isAhead || periods[index] == state.governing else { continue }
            grants.append(
                Grant(statement: periods[index], reason: .subscription, until: periods[index].expiresDate))
        }
        if let grant = Grant(afterEndOf: state) { grants.append(grant) }
        for index in grants.indices { grants[index].prepaid = prepaid }
        return grants
    }

    /// The earliest instant after `now` at which an answer about the chain may change if no further fact arrives.
    func nextChange(_ renewal: RenewalFact?, after now: Timestamp) -> Timestamp? {
        var next = nextStart(after: now)
        func consider(_ instant: Timestamp?) {
            if let instant, now < instant { next = earliest(next, instant) }
        }
        consider(renewal?.gracePeriodExpiresDate)
        consider(app?.expiresDate)
        for index in purchases.indices where purchases[index].type == .nonRenewingSubscription {
            consider(nonRenewingEnd(of: purchases[index]))
        }
        for index in periods.indices {
            guard let end = periods[index].expiresDate else { continue }
            consider(end)
            consider(end.advanced(by: catalogue.staleLeeway))
        }
        return next
    }
}

extension Grant {
    /// The grant after the end of a subscription's period: for the grace period, or for the leeway in which a late
    /// renewal may still arrive. `nil` in all other cases.
    fileprivate init?(afterEndOf state: SubscriptionState) {
        guard state.hasAccess, state.status != .active else { return nil }
        let reason: Entitlement.Reason = state.status == .stale ? .stale : .billingGrace
        self.init(statement: state.governing, reason: reason, until: state.accessUntil)
    }
}

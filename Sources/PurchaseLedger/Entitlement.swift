// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// What a customer may use, from which purchase, until when.
public struct Entitlement: Hashable, Sendable {
    /// Why it is there.
    public enum Reason: String, CaseIterable, Sendable {
        /// A subscription's period that is paid for.
        case subscription
        /// A subscription whose charge failed, in its grace period.
        case billingGrace
        /// A subscription whose renewal has not arrived, within the leeway that is configured.
        case stale
        /// A non-consumable, or a non-renewing subscription.
        case purchase
    }

    public var name: String
    public var reason: Reason
    public var productId: String
    public var transactionId: String
    public var originalTransactionId: String
    /// Until when, that instant not included; `nil` for no end.
    public var until: Timestamp?
    public var ownership: Open<InAppOwnershipType>?
}

/// A consumable, whose use is the app's to count.
public struct ConsumablePurchase: Hashable, Sendable {
    public var productId: String
    public var transactionId: String
    public var purchaseDate: Timestamp?
    public var quantity: Int
    /// How many a refund took back; of a fraction of one, none.
    public var revokedQuantity: Int
}

/// What one customer has in one app and environment at one instant: `f(facts, catalogue, now)`.
public struct Holdings: Hashable, Sendable {
    /// The best of each name, in the order of their names.
    public var entitlements: [Entitlement] = []
    /// By original transaction id.
    public var subscriptions: [String: SubscriptionState] = [:]
    public var consumables: [ConsumablePurchase] = []
    /// Products that the catalogue does not have. They count in all else, but entitle to nothing by name.
    public var unknownProducts: Set<String> = []
    /// When this answer will change by itself if no further fact arrives; `nil` for never.
    public var nextChange: Timestamp?
    /// Whether any of it may be used, also where the catalogue has no name for it.
    var isEntitling = false
}

extension Holdings {
    /// Decides what `chains`, which all belong to one customer in one app and environment, amount to at `now`.
    public init(_ chains: some Sequence<Chain>, catalogue: Catalogue, at now: Timestamp) {
        let chains = chains.sorted { $0.key.originalTransactionId < $1.key.originalTransactionId }
        var grants = OneGrantAGroup(catalogue)
        var changes: [Timestamp] = []
        for chain in chains {
            let purchases = chain.purchases
            let state = chain.subscription(of: purchases, at: now)
            for purchase in purchases where !purchase.isSubscription {
                if purchase.type == .consumable { consumables.append(ConsumablePurchase(purchase)) }
                if let grant = purchase.grant(catalogue, at: now) { grants.add(grant) }
            }
            let group = purchases.lazy.compactMap(\.subscriptionGroup).first
            for var grant in purchases.subscriptionGrants(state, catalogue, at: now) {
                // A chain never leaves its group, which receipts have no word for.
                grant.statement.subscriptionGroup = grant.statement.subscriptionGroup ?? group
                grants.add(grant)
            }
            subscriptions[chain.key.originalTransactionId] = state
            for purchase in purchases where catalogue.products[purchase.productId] == nil {
                unknownProducts.insert(purchase.productId)
            }
            changes += chain.instants(of: purchases, catalogue).filter { $0 > now }
        }
        entitlements = grants.entitlements
        isEntitling = !grants.isEmpty
        nextChange = changes.min()
    }
}

/// A claim to a product's entitlements.
private struct Grant {
    var statement: TransactionStatement
    var reason: Entitlement.Reason
    var until: Timestamp?
}

/// Of each subscription group only the highest level counts; what was bought once counts all.
private struct OneGrantAGroup {
    private let catalogue: Catalogue
    private var groups: [String: Grant] = [:]
    private var others: [Grant] = []

    init(_ catalogue: Catalogue) {
        self.catalogue = catalogue
    }

    mutating func add(_ grant: Grant) {
        guard grant.statement.isSubscription, let group = grant.statement.subscriptionGroup else {
            others.append(grant)
            return
        }
        guard let best = groups[group] else {
            groups[group] = grant
            return
        }
        if isBetter(grant, best) { groups[group] = grant }
    }

    /// The higher level, then the later end, then whatever sets them apart.
    private func isBetter(_ left: Grant, _ right: Grant) -> Bool {
        let ranks = (catalogue.rank(left.statement.productId), catalogue.rank(right.statement.productId))
        guard ranks.0 == ranks.1 else { return ranks.0 < ranks.1 }
        return isLater(left, right)
    }

    private func isLater(_ left: Grant, _ right: Grant) -> Bool {
        let ends = (left.until ?? .distantFuture, right.until ?? .distantFuture)
        return (ends.0.milliseconds, left.statement.transactionId) > (
            ends.1.milliseconds, right.statement.transactionId
        )
    }

    var isEmpty: Bool { groups.isEmpty && others.isEmpty }

    /// The best of each name: what lasts longest.
    var entitlements: [Entitlement] {
        var best: [String: Grant] = [:]
        for grant in others + groups.values {
            for name in catalogue.products[grant.statement.productId]?.entitlements ?? [] {
                if let known = best[name], !isLater(grant, known) { continue }
                best[name] = grant
            }
        }
        return best.sorted { $0.key < $1.key }.map { Entitlement($0.key, $0.value) }
    }
}

extension Entitlement {
    fileprivate init(_ name: String, _ grant: Grant) {
        self.name = name
        reason = grant.reason
        productId = grant.statement.productId
        transactionId = grant.statement.transactionId
        originalTransactionId = grant.statement.originalTransactionId
        until = grant.until
        ownership = grant.statement.ownership
    }
}

extension ConsumablePurchase {
    fileprivate init(_ purchase: TransactionStatement) {
        productId = purchase.productId
        transactionId = purchase.transactionId
        purchaseDate = purchase.purchaseDate
        quantity = purchase.quantity
        revokedQuantity = 0
        guard let revocation = purchase.revocation else { return }
        // A percentage is told where a refund is prorated; without one all of it was refunded.
        let percentage = revocation.type == .refundProrated ? revocation.percentage ?? 100_000 : 100_000
        let taken = purchase.quantity.multipliedReportingOverflow(by: min(max(0, percentage), 100_000))
        revokedQuantity = taken.overflow ? purchase.quantity : taken.partialValue / 100_000
    }
}

extension TransactionStatement {
    /// What a purchase that is no auto-renewable subscription entitles to.
    fileprivate func grant(_ catalogue: Catalogue, at now: Timestamp) -> Grant? {
        guard revocation == nil, type != .consumable else { return nil }
        guard type == .nonRenewingSubscription else { return Grant(statement: self, reason: .purchase, until: nil) }
        let end = nonRenewingEnd(catalogue)
        return end.map { now < $0 } ?? true ? Grant(statement: self, reason: .purchase, until: end) : nil
    }

    /// The end of a non-renewing subscription: the app's own duration after the purchase.
    fileprivate func nonRenewingEnd(_ catalogue: Catalogue) -> Timestamp? {
        guard let purchaseDate, let duration = catalogue.products[productId]?.duration else { return nil }
        return purchaseDate.advanced(by: duration)
    }
}

extension [TransactionStatement] {
    /// What an auto-renewable subscription in this state entitles to: any period that runs, else grace, else the leeway.
    fileprivate func subscriptionGrants(
        _ state: SubscriptionState?, _ catalogue: Catalogue, at now: Timestamp
    ) -> [Grant] {
        var grants: [Grant] = []
        for period in self where period.isSubscription && period.revocation == nil && !period.isUpgraded {
            guard let end = period.expiresDate, now < end else { continue }
            grants.append(Grant(statement: period, reason: .subscription, until: end))
        }
        guard let state else { return grants }
        switch state.status {
        case .billingGrace:
            grants.append(Grant(statement: state.governing, reason: .billingGrace, until: state.accessUntil))
        case .stale:
            let end = state.governing.expiresDate?.advanced(by: catalogue.staleLeeway)
            if let end, now < end { grants.append(Grant(statement: state.governing, reason: .stale, until: end)) }
        case .active, .expired, .billingRetry, .revoked, .upgraded:
            break
        }
        return grants
    }
}

extension Chain {
    /// All instants at which an answer about this chain may change by itself.
    fileprivate func instants(of purchases: [TransactionStatement], _ catalogue: Catalogue) -> [Timestamp] {
        var instants: [Timestamp] = []
        for purchase in purchases {
            if purchase.isSubscription, let end = purchase.expiresDate {
                instants += [end, end.advanced(by: catalogue.staleLeeway)]
            }
            if purchase.type == .nonRenewingSubscription, let end = purchase.nonRenewingEnd(catalogue) {
                instants.append(end)
            }
        }
        if let grace = renewal?.gracePeriodExpiresDate { instants.append(grace) }
        return instants
    }
}

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
    /// The last instant until which any of it may be used; `nil` for none, and for no end.
    var latestEnd: Timestamp?
}

extension Holdings {
    /// Decides what `chains`, which all belong to one customer in one app and environment, amount to at `now`.
    public init(_ chains: some Sequence<Chain>, catalogue: Catalogue, at now: Timestamp) {
        let chains = chains.sorted { $0.key.originalTransactionId < $1.key.originalTransactionId }
        self.init(chains.map { ($0, $0.history(at: now)) }, catalogue, at: now)
    }

    /// - Parameter chains: With their histories at `now`, in the order of their keys.
    init(_ chains: [(Chain, PurchaseHistory)], _ catalogue: Catalogue, at now: Timestamp) {
        var grants = BestGrantPerGroup(catalogue)
        var changes: [Timestamp] = []
        for (chain, history) in chains {
            let state = history.subscription(chain.renewal, at: now)
            consumables += history.purchases.those { $0.type == .consumable }.map { ConsumablePurchase($0) }
            for grant in history.grants(state, catalogue, at: now) { grants.add(grant) }
            subscriptions[chain.key.originalTransactionId] = state
            unknownProducts.formUnion(
                history.purchases.those { catalogue.products[$0.productId] == nil }.map(\.productId))
            changes += history.instants(chain.renewal, catalogue, after: now)
        }
        entitlements = grants.entitlements
        isEntitling = !grants.isEmpty
        latestEnd = grants.latestEnd
        nextChange = changes.min()
    }
}

/// A claim to a product's entitlements.
private struct Grant {
    var statement: TransactionStatement
    var reason: Entitlement.Reason
    var until: Timestamp?
    /// The renewals that were charged ahead, in their order.
    var next: [TransactionStatement] = []

    /// Until when the entitlement `name` is granted: also by those charged ahead, as far as they grant it too.
    func until(_ name: String, _ catalogue: Catalogue) -> Timestamp? {
        let granting = next.filter { catalogue.products[$0.productId]?.entitlements.contains(name) ?? false }
        return granting.reduce(until) { until, period in
            until.map { period.continues(after: $0) ? period.end : $0 }
        }
    }
}

/// Of each subscription group only the highest level counts; what was bought once counts all.
private struct BestGrantPerGroup {
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

    var latestEnd: Timestamp? {
        let last = (others + groups.values).map { $0.until ?? .distantFuture }.max()
        return last == .distantFuture ? nil : last
    }

    /// The best of each name: what lasts longest.
    var entitlements: [Entitlement] {
        var best: [String: Grant] = [:]
        for grant in others + groups.values {
            for name in catalogue.products[grant.statement.productId]?.entitlements ?? [] {
                var named = grant
                named.until = grant.until(name, catalogue)
                if let known = best[name], !isLater(named, known) { continue }
                best[name] = named
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

extension PurchaseHistory {
    /// All that entitles at `now`, in whichever group.
    ///
    /// - Parameter state: Of the subscription at `now`, if it is one.
    fileprivate func grants(_ state: SubscriptionState?, _ catalogue: Catalogue, at now: Timestamp) -> [Grant] {
        var grants = state.map { periodGrants($0, catalogue, at: now) } ?? []
        grants += purchases.those { $0.type == .nonRenewingSubscription }.compactMap {
            $0.nonRenewingGrant(catalogue, at: now)
        }
        if let lasting, lasting.revocation == nil { grants.append(Grant(statement: lasting, reason: .purchase)) }
        // A chain never leaves its group, for which receipts have no word.
        let group = purchases.indices.lazy.compactMap { purchases[$0].subscriptionGroup }.first
        for index in grants.indices where grants[index].statement.subscriptionGroup == nil {
            grants[index].statement.subscriptionGroup = group
        }
        return grants
    }

    /// The periods that run, and what is left of one that is over. Of those that have not begun, only one that governs counts as
    /// running; the others extend what is granted.
    private func periodGrants(_ state: SubscriptionState, _ catalogue: Catalogue, at now: Timestamp) -> [Grant] {
        let open = periods.those { now < $0.end && $0.revocation == nil }
        var grants = open.filter { $0.start <= now || $0 == state.governing }.map { period in
            Grant(statement: period, reason: .subscription, until: period.expiresDate)
        }
        if let grant = Grant(afterEndOf: state, catalogue, at: now) { grants.append(grant) }
        let next = open.filter { $0.start > now }
        for index in grants.indices { grants[index].next = next }
        return grants
    }

    /// All instants after `now` at which an answer about this chain may change by itself.
    fileprivate func instants(
        _ renewal: RenewalFact?, _ catalogue: Catalogue, after now: Timestamp
    ) -> [Timestamp] {
        var instants = starts
        for purchase in purchases.those(where: { $0.type == .nonRenewingSubscription }) {
            if let end = purchase.nonRenewingEnd(catalogue) { instants.append(end) }
        }
        for index in periods.indices {
            guard let end = periods[index].expiresDate else { continue }
            instants += [end, end.advanced(by: catalogue.staleLeeway)]
        }
        if let grace = renewal?.gracePeriodExpiresDate { instants.append(grace) }
        return instants.filter { $0 > now }
    }
}

extension Grant {
    /// What is left of a subscription whose period is over: grace, or the leeway of a renewal that has not arrived.
    fileprivate init?(afterEndOf state: SubscriptionState, _ catalogue: Catalogue, at now: Timestamp) {
        switch state.status {
        case .billingGrace:
            self.init(statement: state.governing, reason: .billingGrace, until: state.accessUntil)
        case .stale:
            let end = state.governing.expiresDate?.advanced(by: catalogue.staleLeeway)
            guard let end, now < end else { return nil }
            self.init(statement: state.governing, reason: .stale, until: end)
        case .active, .expired, .billingRetry, .revoked, .upgraded:
            return nil
        }
    }
}

extension TransactionStatement {
    /// What a non-renewing subscription entitles to.
    fileprivate func nonRenewingGrant(_ catalogue: Catalogue, at now: Timestamp) -> Grant? {
        guard type == .nonRenewingSubscription, revocation == nil, start <= now else { return nil }
        let end = nonRenewingEnd(catalogue)
        return end.map { now < $0 } ?? true ? Grant(statement: self, reason: .purchase, until: end) : nil
    }

    /// The end of a non-renewing subscription: the app's own duration after the purchase. `nil` for none.
    fileprivate func nonRenewingEnd(_ catalogue: Catalogue) -> Timestamp? {
        guard let purchaseDate, let duration = catalogue.products[productId]?.duration else { return nil }
        return purchaseDate.advanced(by: duration)
    }
}

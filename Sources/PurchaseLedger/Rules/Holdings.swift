// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Everything that one customer has in one app and environment at one instant.
public struct Holdings: Hashable, Sendable {
    /// The entitlements, at most one of each name, ordered by name.
    public var entitlements: [Entitlement] = []
    /// The subscriptions, by the names of their chains; see ``ChainKey/name``.
    public var subscriptions: [String: SubscriptionState] = [:]
    /// All consumables, including refunded ones.
    public var consumables: [ConsumablePurchase] = []
    /// The customer's products that are not in the catalogue. They grant no entitlement.
    public var unknownProducts: Set<String> = []
    /// Those of ``unknownProducts`` that were bought in the last 30 days; see ``Notice``.
    package var recentUnknownProducts: Set<String> = []
    /// The names of the chains that the operator refuses; see ``Catalogue/refuses(_:)``.
    public var refused: Set<String> = []
    /// When this answer changes if no further fact arrives; `nil` for never.
    public var nextChange: Timestamp?

    /// The holdings of a customer that owns nothing.
    public init() {}
}

extension Holdings {
    /// Computes the holdings at `now` from chains, all of one customer in one app and environment.
    public init(_ chains: some Sequence<Chain>, catalogue: Catalogue, at now: Timestamp) {
        let chains = chains.sorted { $0.key.name < $1.key.name }
        self.init(chains.map { ($0, $0.history(catalogue, at: now)) }, catalogue, at: now)
    }

    /// - Parameter chains: The chains with their histories at `now`, ordered by name.
    init(_ chains: [(Chain, PurchaseHistory)], _ catalogue: Catalogue, at now: Timestamp) {
        var grants = BestGrantPerGroup(catalogue)
        for (chain, history) in chains {
            let state = history.subscription(chain.renewal, at: now)
            if history.isRefused { refused.insert(chain.key.name) }
            consumables += history.consumables
            for grant in history.grants(state, catalogue, at: now) { grants.add(grant) }
            subscriptions[chain.key.name] = state
            let unknown = history.purchases.elements { catalogue.products[$0.productId] == nil }
            unknownProducts.formUnion(unknown.map(\.productId))
            recentUnknownProducts.formUnion(unknown.filter { Notice.isRecent($0, at: now) }.map(\.productId))
            let change = history.nextChange(chain.renewal, catalogue, after: now)
            nextChange = earliest(nextChange, change)
        }
        entitlements = grants.entitlements
    }
}

/// The grants that count: the best one of each subscription group, and all others.
private struct BestGrantPerGroup {
    private let catalogue: Catalogue
    private var groups: [String: Grant] = [:]
    private var others: [Grant] = []

    init(_ catalogue: Catalogue) {
        self.catalogue = catalogue
    }

    mutating func add(_ grant: Grant) {
        guard grant.statement.isSubscription, let group = grant.statement.subscriptionGroup, !group.isEmpty else {
            others.append(grant)
            return
        }
        if let best = groups[group], !isBetter(grant, best) { return }
        groups[group] = grant
    }

    /// Compares the levels of the products, then as ``isLater(_:_:)``.
    private func isBetter(_ left: Grant, _ right: Grant) -> Bool {
        let ranks = (catalogue.rank(left.statement.productId), catalogue.rank(right.statement.productId))
        return ranks.0 == ranks.1 ? isLater(left, right) : ranks.0 < ranks.1
    }

    /// Compares ends, then transaction ids, so that the order of the chains does not matter.
    private func isLater(_ left: Grant, _ right: Grant) -> Bool {
        let ends = (left.until ?? .distantFuture, right.until ?? .distantFuture)
        return (ends.0, left.statement.transactionId) > (ends.1, right.statement.transactionId)
    }

    /// Of each name, the entitlement that lasts longest.
    var entitlements: [Entitlement] {
        var best: [String: Grant] = [:]
        for grant in others + groups.values {
            for name in catalogue.products[grant.statement.productId]?.entitlements ?? [] {
                var named = grant
                named.until = grant.end(of: name, catalogue)
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

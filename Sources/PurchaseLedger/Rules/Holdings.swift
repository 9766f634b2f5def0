// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// All entitlements and purchases of a customer in one app and environment at one instant.
public struct Holdings: Hashable, Sendable {
    /// The entitlements without duplicate names, ordered by name.
    public var entitlements: [Entitlement] = []
    /// The subscriptions, by the names of their chains; see ``ChainKey/name``.
    public var subscriptions: [String: SubscriptionState] = [:]
    /// All consumables, refunded or not.
    public var consumables: [ConsumablePurchase] = []
    /// The customer's products outside the catalogue. These products grant no entitlement.
    public var unknownProducts: Set<String> = []
    /// The members of ``unknownProducts`` that the customer bought in the last 30 days; see ``Notice``.
    package var recentUnknownProducts: Set<String> = []
    /// The names of the refused chains; see ``Catalogue/refuses(_:)``.
    public var refused: Set<String> = []
    /// The next time at which this answer may change without a further fact; `nil` for never.
    public var nextChange: Timestamp?

    /// The holdings of a customer without purchases.
    public init() {}
}

extension Holdings {
    /// Computes the holdings at `now` from a customer's chains and grants in one app and environment.
    public init(
        _ chains: some Sequence<Chain>, grants: some Sequence<CustomerGrant> = [], catalogue: Catalogue,
        at now: Timestamp
    ) {
        let chains = chains.sorted { $0.key.name < $1.key.name }
        self.init(chains.map { ($0, $0.history(catalogue, at: now)) }, grants, catalogue, at: now)
    }

    /// - Parameters:
    ///   - chains: The chains with their histories at `now`, ordered by name.
    ///   - given: The grants of the environment.
    init(
        _ chains: [(Chain, PurchaseHistory)], _ given: some Sequence<CustomerGrant>, _ catalogue: Catalogue,
        at now: Timestamp
    ) {
        var grants = CountingGrants([], catalogue)
        for (chain, history) in chains {
            let state = history.subscription(chain.renewal)
            if history.isRefused { refused.insert(chain.key.name) }
            consumables += history.consumables
            for grant in history.grants(state) { grants.add(grant) }
            subscriptions[chain.key.name] = state
            let purchases = history.purchases
            for index in purchases.indices where catalogue.products[exactly: purchases[index].productId] == nil {
                unknownProducts.insert(purchases[index].productId)
                guard Notice.isRecent(purchases[index], at: now) else { continue }
                recentUnknownProducts.insert(purchases[index].productId)
            }
            let change = history.nextChange(chain.renewal, after: now)
            nextChange = earliest(nextChange, change)
        }
        let active = given.filter { $0.isActive(at: now) }
        entitlements = grants.byName.map { Entitlement($0, $1) }.adding(active)
        nextChange = active.reduce(nextChange) { earliest($0, $1.until) }
    }
}

extension [Entitlement] {
    /// These entitlements, the best of each name, together with the entitlements of active grants. Of each name the
    /// latest end counts. If the ends are equal, a purchase counts more than a grant.
    fileprivate func adding(_ grants: [CustomerGrant]) -> [Entitlement] {
        guard !grants.isEmpty else { return self }
        var best = Dictionary(map { ($0.name, $0) }) { first, _ in first }
        // In the order of the ids, so that the order of the grants does not matter.
        for grant in grants.sorted(by: { $0.id < $1.id }) {
            if let known = best[grant.entitlement],
                known.until ?? .distantFuture >= grant.until ?? .distantFuture
            {
                continue
            }
            best[grant.entitlement] = Entitlement(grant)
        }
        return best.sorted { $0.key < $1.key }.map(\.value)
    }
}

extension Entitlement {
    /// The entitlement that a grant gives while it is active.
    init(_ grant: CustomerGrant) {
        name = grant.entitlement
        reason = .grant
        grantId = grant.id
        until = grant.until
    }
}

/// Of the grants (``Grant``) of a customer or of a single purchase, those that count: the best grant of each
/// subscription group, and all grants outside groups. A grant without entitlements never counts: it takes nothing away
/// from a second purchase of its group, and no event could show that it did.
struct CountingGrants {
    private let catalogue: Catalogue
    private var groups: [String: Grant] = [:]
    private var others: [Grant] = []

    init(_ grants: [Grant] = [], _ catalogue: Catalogue) {
        self.catalogue = catalogue
        for grant in grants { add(grant) }
    }

    mutating func add(_ grant: Grant) {
        guard !catalogue.entitlements(of: grant.statement).isEmpty else { return }
        guard grant.statement.isSubscription else {
            others.append(grant)
            return
        }
        // If no document names the group, the subscription is a group by itself.
        let group = grant.group ?? "subscription \(grant.statement.chainName)"
        if let best = groups[group], !isBetter(grant, best) { return }
        groups[group] = grant
    }

    /// Compares the levels of the products. If the levels are equal, compares the latest ends of their entitlements,
    /// which events show too.
    private func isBetter(_ left: Grant, _ right: Grant) -> Bool {
        let ranks = (catalogue.rank(left.statement.productId), catalogue.rank(right.statement.productId))
        guard ranks.0 == ranks.1 else { return ranks.0 < ranks.1 }
        return isLater(left, left.lastEnd(catalogue), right, right.lastEnd(catalogue))
    }

    /// Compares ends. If the ends are equal, compares the original transaction ids, as followers of events do, and then
    /// the transaction ids, so that the order of the chains does not matter.
    private func isLater(_ left: Grant, _ leftEnd: Timestamp?, _ right: Grant, _ rightEnd: Timestamp?) -> Bool {
        let ends = (leftEnd ?? .distantFuture, rightEnd ?? .distantFuture)
        let left = left.statement
        let right = right.statement
        return (ends.0, left.originalTransactionId, left.transactionId)
            > (ends.1, right.originalTransactionId, right.transactionId)
    }

    /// For each name, in order, the grant of the entitlement with the latest end.
    var byName: [(String, Grant)] {
        var best: [String: Grant] = [:]
        for grant in others + groups.values {
            for name in catalogue.entitlements(of: grant.statement) {
                var named = grant
                named.until = grant.end(of: name, catalogue)
                if let known = best[name], !isLater(named, named.until, known, known.until) { continue }
                best[name] = named
            }
        }
        return best.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }
}

extension Entitlement {
    fileprivate init(_ name: String, _ grant: Grant) {
        self.name = name
        reason = grant.reason
        if !grant.statement.isAppPurchase {
            productId = grant.statement.productId
            transactionId = grant.statement.transactionId
            originalTransactionId = grant.statement.originalTransactionId
        }
        until = grant.until
        ownership = grant.statement.ownership
    }
}

// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// What consumers of events know of one chain: what a subscription's answer says, or a purchase's.
public struct ChainState: Hashable, Sendable {
    /// Of a subscription as answers have it. Of what was bought once: `active`, `revoked` if all of it was refunded, or `expired`
    /// if its time is over.
    public var status: SubscriptionState.Status
    /// Of a subscription the product of the governing period, of what was bought once that of the last purchase.
    public var productId: String?
    /// Until when it may be used, that instant not included: of a subscription as `accessUntil` in answers. `nil` for not at all,
    /// and for no end.
    public var until: Timestamp?
    /// Of a subscription: whether it will renew; `nil` if that is not known.
    public var willRenew: Bool?

    public init(
        status: SubscriptionState.Status, productId: String? = nil, until: Timestamp? = nil, willRenew: Bool? = nil
    ) {
        self.status = status
        self.productId = productId
        self.until = until
        self.willRenew = willRenew
    }
}

/// What was published about a chain last, so that each change is published once, also after downtime.
public struct ChainReport: Hashable, Sendable {
    public var state: ChainState
    public var isSubscription: Bool
    /// The last transaction that counts.
    public var transactionId: String?
    /// The end of what is paid for.
    public var expiresDate: Timestamp?
    /// The transactions of it that were taken back.
    public var revoked: Set<String>
    /// Whether any of it can be used.
    public var isEntitling: Bool
    /// When to look again; `nil` for never.
    public var nextChange: Timestamp?

    public init(
        _ state: ChainState, isSubscription: Bool, transactionId: String? = nil, expiresDate: Timestamp? = nil,
        revoked: Set<String> = [], isEntitling: Bool = false, nextChange: Timestamp? = nil
    ) {
        self.state = state
        self.isSubscription = isSubscription
        self.transactionId = transactionId
        self.expiresDate = expiresDate
        self.revoked = revoked
        self.isEntitling = isEntitling
        self.nextChange = nextChange
    }
}

extension ChainReport {
    /// What there is to publish about a chain at `now`.
    init(_ chain: Chain, _ catalogue: Catalogue, at now: Timestamp) {
        // What is known of the purchases does not depend on the time.
        let history = chain.history(at: now)
        let purchases = history.purchases
        let holdings = Holdings([(chain, history)], catalogue, at: now)
        let subscription = holdings.subscriptions[chain.key.originalTransactionId]
        let state = subscription.map(ChainState.init) ?? ChainState(purchases, holdings)
        self.init(state, isSubscription: subscription != nil)
        revoked = Set(purchases.lazy.filter { $0.revocation != nil }.map { $0.transactionId })
        transactionId = subscription?.lastPaid.transactionId ?? purchases.last?.transactionId
        expiresDate = subscription?.lastPaid.expiresDate
        nextChange = holdings.nextChange
        isEntitling = holdings.isEntitling
    }
}

extension ChainState {
    init(_ subscription: SubscriptionState) {
        status = subscription.status
        productId = subscription.governing.productId
        until = subscription.accessUntil
        willRenew = subscription.willRenew
    }

    /// The state of what was bought once.
    fileprivate init(_ purchases: [TransactionStatement], _ holdings: Holdings) {
        let standing = purchases.filter { $0.revocation == nil }
        let isUsable = holdings.isEntitling || holdings.consumables.contains { $0.revokedQuantity < $0.quantity }
        // What takes back one id of a purchase takes back all of it, so that another id of it may stand.
        let isOver = standing.contains { $0.type == .nonRenewingSubscription }
        status = isUsable ? .active : isOver ? .expired : .revoked
        productId = purchases.last?.productId
        until = holdings.isEntitling ? holdings.latestEnd : nil
    }
}

// MARK: - Changes

extension ChainReport {
    /// Something to publish.
    struct Change {
        var kind: LedgerEvent.Kind
        var transactionId: String?
        var productId: String?
    }

    /// What changed since `old` was published, in an order in which it can have happened; all of it if nothing was.
    func changes(since old: ChainReport?, _ chain: Chain) -> [Change] {
        let revocations = revocations(since: old, chain)
        var changes = revocations.filter { $0.kind == .refundReversed }
        changes += isSubscription ? start(since: old) : purchase(since: old)
        changes += revocations.filter { $0.kind == .refunded }
        if isSubscription { changes += status(since: old) }
        if old?.isEntitling == true, !isEntitling, !changes.contains(where: \.kind.endsAccess) {
            changes.append(change(.accessEnded))
        }
        if changes.isEmpty, let old, old.state != state {
            changes.append(change(isSubscription ? .subscriptionUpdated : .purchaseUpdated))
        }
        return changes
    }

    private func change(_ kind: LedgerEvent.Kind) -> Change {
        Change(kind: kind, transactionId: transactionId, productId: state.productId)
    }

    private func purchase(since old: ChainReport?) -> [Change] { old == nil ? [change(.purchased)] : [] }

    /// Refunds and their reversals.
    private func revocations(since old: ChainReport?, _ chain: Chain) -> [Change] {
        let known = old?.revoked ?? []
        guard revoked != known else { return [] }
        return chain.purchases.compactMap { purchase in
            let isRevoked = revoked.contains(purchase.transactionId)
            guard isRevoked != known.contains(purchase.transactionId) else { return nil }
            return Change(
                kind: isRevoked ? .refunded : .refundReversed, transactionId: purchase.transactionId,
                productId: purchase.productId)
        }
    }

    /// A subscription that is new, or was paid for again.
    private func start(since old: ChainReport?) -> [Change] {
        guard let old, old.isSubscription else { return [change(.subscriptionStarted)] }
        let before = old.state.status
        let isLater = (expiresDate ?? .distantFuture) > (old.expiresDate ?? .distantFuture)
        guard state.status == .active else { return [] }
        if before != .active, before != .stale { return [change(.subscriptionRecovered)] }
        guard state.productId == old.state.productId, isLater else { return [] }
        return [change(transactionId == old.transactionId ? .subscriptionExtended : .subscriptionRenewed)]
    }

    private func status(since old: ChainReport?) -> [Change] {
        guard let old, old.isSubscription else { return statusEvent.map { [change($0)] } ?? [] }
        var changes: [Change] = []
        if state.productId != old.state.productId { changes.append(change(.subscriptionProductChanged)) }
        if state.status != old.state.status, let event = statusEvent { changes.append(change(event)) }
        if let change = renewal(since: old) { changes.append(change) }
        return changes
    }

    /// A cancellation is one too if it was not known before whether the subscription renews.
    private func renewal(since old: ChainReport) -> Change? {
        switch (old.state.willRenew, state.willRenew) {
        case (true, false): change(.subscriptionRenewalDisabled)
        case (nil, false) where state.status == .active: change(.subscriptionRenewalDisabled)
        case (false, true): change(.subscriptionRenewalEnabled)
        default: nil
        }
    }

    /// What a status is published as when it is entered. That a subscription is active is published as having started, renewed or
    /// recovered.
    private var statusEvent: LedgerEvent.Kind? {
        switch state.status {
        case .billingGrace: .subscriptionGraceEntered
        case .billingRetry: .subscriptionRetryEntered
        case .expired: .subscriptionExpired
        case .stale: .subscriptionStale
        case .revoked: .subscriptionRevoked
        case .active, .upgraded: nil
        }
    }
}

extension LedgerEvent.Kind {
    /// Whether it says that access ended.
    fileprivate var endsAccess: Bool {
        switch self {
        case .subscriptionExpired, .subscriptionRetryEntered, .subscriptionRevoked, .refunded: true
        default: false
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The published facts about a purchase with its renewals (see ``Chain``). Each new report is compared with the last
/// published report, so that each change is published once, even after downtime.
public struct ChainReport: Hashable, Sendable {
    /// The last published state.
    public var state: ChainState
    /// Whether the purchase is an auto-renewable subscription.
    public var isSubscription: Bool
    /// The transaction in the state.
    public var transactionId: String? { state.transactionId }
    /// The end of a subscription's last paid period; `nil` for other products.
    public var expiresDate: Timestamp?
    /// The reason why the subscription ended or will end; `nil` if unknown.
    public var expirationIntent: Open<ExpirationIntent>?
    /// The ids of the revoked transactions.
    public var revoked: Set<String>
    /// Whether the chain entitles its owners to anything.
    public var isEntitling: Bool
    /// The entitlements that the chain gives its owners.
    public var entitlements = GivenEntitlements.empty
    /// The digest of the published ``EventDetails`` about ``transactionId``.
    public var details: Int64 = 0
    /// The instant at which to evaluate the chain again; `nil` for never.
    public var nextChange: Timestamp?
    /// The instant as of which the report was made, if the report depends on the server's clock. It does if time alone
    /// may have changed the chain after its newest document was signed. `nil` if the documents alone prove the report.
    /// If the instant turns out to be ahead of the present time, the clock was wrong, and the report must be corrected;
    /// see `clockTolerance`.
    public var asOf: Timestamp?

    public init(
        _ state: ChainState, isSubscription: Bool, expiresDate: Timestamp? = nil, revoked: Set<String> = [],
        isEntitling: Bool = false, nextChange: Timestamp? = nil, asOf: Timestamp? = nil
    ) {
        self.state = state
        self.isSubscription = isSubscription
        self.expiresDate = expiresDate
        self.revoked = revoked
        self.isEntitling = isEntitling
        self.nextChange = nextChange
        self.asOf = asOf
    }
}

extension ChainReport {
    /// The report about a chain at `now`.
    ///
    /// - Parameters:
    ///   - history: The chain's history at `now`.
    ///   - subscription: The state of the subscription at `now`; `nil` if the chain is no subscription.
    init(
        _ chain: Chain, _ history: PurchaseHistory, _ subscription: SubscriptionState?, _ catalogue: Catalogue,
        at now: Timestamp
    ) {
        let grants = history.grants(subscription)
        let purchases = history.purchases
        self.init(
            subscription.map(ChainState.init) ?? ChainState(history, of: chain),
            isSubscription: subscription != nil)
        for index in purchases.indices where purchases[index].revocation != nil {
            revoked.insert(purchases[index].transactionId)
        }
        expiresDate = subscription?.lastPaid.expiresDate
        expirationIntent = subscription?.expirationIntent
        nextChange = history.nextChange(chain.renewal, after: now)
        isEntitling = !grants.isEmpty
        entitlements = GivenEntitlements(grants, catalogue, in: chain.key.scope.environment)
        if chain.hasChanged(history) { asOf = now }
    }

    /// The tolerated difference between the clocks of two servers, or of a server and the App Store. If a clock is
    /// ahead by no more than this, its reports need no correction, because they come true before a correction could
    /// arrive.
    package static let clockTolerance = Duration.seconds(60)

    /// Whether the report comes from a clock that was ahead of `now` by more than the tolerance.
    func isAhead(of now: Timestamp) -> Bool { asOf.map { $0 > now.advanced(by: Self.clockTolerance) } ?? false }
}

/// A chain as it is at an instant: the report to publish, and the details of its events.
struct ChainEvaluation {
    private(set) var report: ChainReport
    /// The details of the report's transaction.
    let details: EventDetails
    let history: PurchaseHistory
    let settlement: Settlement?
    private let chain: Chain
    private let subscription: SubscriptionState?

    init(_ chain: Chain, _ catalogue: Catalogue, at now: Timestamp) {
        history = chain.history(catalogue, at: now)
        self.chain = chain
        subscription = history.subscription(chain.renewal)
        report = ChainReport(chain, history, subscription, catalogue, at: now)
        details = EventDetails(history.app ?? chain.statement(report.transactionId), subscription)
        report.details = details.digest(besides: subscription?.nextCommitmentProductId)
        settlement = history.settlement(chain)
    }

    /// The details of an event about a transaction of the chain.
    func details(of transactionId: String?) -> EventDetails {
        guard transactionId != report.transactionId else { return details }
        return EventDetails(chain.statement(transactionId), subscription)
    }
}

extension Chain {
    /// The present statement about a transaction; `nil` if the transaction is unknown.
    func statement(_ transactionId: String?) -> TransactionStatement? {
        transactionId.flatMap { transactions[$0] }.flatMap { current($0) }
    }

    /// The signing date of the newest document about the chain; `nil` if there is none.
    private var newestSigningDate: Timestamp? {
        var newest = renewal?.provenance.signedDate
        for fact in transactions.values {
            newest = [newest, fact.signed?.provenance.signedDate, fact.receipt?.provenance.signedDate]
                .compactMap(\.self).max()
        }
        return newest
    }

    /// Whether time alone may have changed an answer about the chain between the signing of its newest document and
    /// the instant of the history.
    fileprivate func hasChanged(_ history: PurchaseHistory) -> Bool {
        let signed = newestSigningDate ?? .distantPast
        // Most documents arrive moments after they are signed. Too little time has then passed for a change.
        guard signed.advanced(by: ChainReport.clockTolerance) < history.now else { return false }
        let next = history.nextChange(renewal, after: signed)
        return next.map { $0 <= history.now } ?? false
    }
}

// MARK: - Changes

extension ChainReport {
    /// A change to publish.
    struct Change {
        var kind: LedgerEvent.Kind
        var transactionId: String?
        var productId: String?
    }

    /// The changes since `old` was published, in an order in which they may have occurred.
    ///
    /// - Parameter old: The last published report; `nil` if there is none.
    func changes(since old: ChainReport?, _ chain: Chain) -> [Change] {
        let revocations = revocations(since: old, chain)
        var changes = revocations.filter { $0.kind == .refundReversed }
        if isSubscription {
            changes += start(since: old)
        } else if old == nil {
            changes.append(change(chain.key.isAppPurchase ? .appRecorded : .purchased))
        }
        changes += revocations.filter { $0.kind != .refundReversed }
        if isSubscription { changes += status(since: old) }
        if old?.isEntitling == true, !isEntitling, !changes.contains(where: \.kind.endsAccess) {
            changes.append(change(.accessEnded))
        }
        if changes.isEmpty, let old, differs(from: old) {
            changes.append(change(isSubscription ? .subscriptionUpdated : .purchaseUpdated))
        }
        return changes
    }

    /// Whether anything that events show differs from the last published report.
    func differs(from old: ChainReport) -> Bool {
        state != old.state || entitlements != old.entitlements || details != old.details
    }

    /// A change of some kind, with the report's transaction and product.
    func change(_ kind: LedgerEvent.Kind) -> Change {
        Change(kind: kind, transactionId: transactionId, productId: state.productId)
    }

    /// Refunds and their reversals, and ends of sharing. Sharing that goes on has no kind of its own.
    private func revocations(since old: ChainReport?, _ chain: Chain) -> [Change] {
        let known = old?.revoked ?? []
        guard revoked != known else { return [] }
        return chain.purchases.compactMap { purchase in
            let isRevoked = revoked.contains(purchase.transactionId)
            guard isRevoked != known.contains(purchase.transactionId), isRevoked || !purchase.isShare else {
                return nil
            }
            let kind: LedgerEvent.Kind = !isRevoked ? .refundReversed : purchase.isShare ? .shareEnded : .refunded
            return Change(kind: kind, transactionId: purchase.transactionId, productId: purchase.productId)
        }
    }

    /// The change if a subscription is new, or was renewed, extended or recovered.
    private func start(since old: ChainReport?) -> [Change] {
        guard let old, old.isSubscription else { return [change(.subscriptionStarted)] }
        let before = old.state.status
        let ends = (old: old.expiresDate ?? .distantFuture, new: expiresDate ?? .distantFuture)
        let isLater = ends.old < ends.new && !ends.old.isNear(ends.new)
        guard state.status == .active else { return [] }
        // An upgraded period ended by its upgrade, whose documents may arrive later.
        if before != .active, before != .stale, before != .upgraded { return [change(.subscriptionRecovered)] }
        guard state.productId == old.state.productId, isLater else { return [] }
        return [change(transactionId == old.transactionId ? .subscriptionExtended : .subscriptionRenewed)]
    }

    private func status(since old: ChainReport?) -> [Change] {
        guard let old, old.isSubscription else { return statusEvent.map { [change($0)] } ?? [] }
        var changes: [Change] = []
        if state.productId != old.state.productId { changes.append(change(.subscriptionProductChanged)) }
        if state.status != old.state.status, let event = statusEvent { changes.append(change(event)) }
        if let isOn = turned(old.state.willRenew, state.willRenew) {
            changes.append(change(isOn ? .subscriptionRenewalEnabled : .subscriptionRenewalDisabled))
        }
        if let isOn = turned(old.state.commitmentWillRenew, state.commitmentWillRenew) {
            changes.append(
                change(isOn ? .subscriptionCommitmentRenewalEnabled : .subscriptionCommitmentRenewalDisabled))
        }
        return changes + renewal(since: old)
    }

    /// Changes of the next product, and the course of a price increase.
    private func renewal(since old: ChainReport) -> [Change] {
        var changes: [Change] = []
        if choosesNextProduct(since: old) { changes.append(change(.subscriptionNextProductChanged)) }
        let status = state.renewal?.priceIncreaseStatus
        if status != old.state.renewal?.priceIncreaseStatus, let status = status?.known {
            changes.append(
                change(status == .pending ? .subscriptionPriceIncreaseAsked : .subscriptionPriceIncreaseAccepted))
        }
        if expirationIntent != old.expirationIntent, expirationIntent?.known == .noConsentToPriceIncrease {
            changes.append(change(.subscriptionPriceIncreaseRefused))
        }
        return changes
    }

    /// Whether the customer chose a different product for the next period, or withdrew the choice. The next product
    /// also changes with an upgrade, and that is no choice.
    private func choosesNextProduct(since old: ChainReport) -> Bool {
        guard let next = state.renewal?.autoRenewProductId else { return false }
        let known = old.state.renewal?.autoRenewProductId ?? old.state.productId
        return next != known && (next != state.productId || known != old.state.productId)
    }

    /// Whether renewal was turned on or off; `nil` if neither. If an active subscription will not renew, renewal counts
    /// as turned off even if its state was unknown before.
    private func turned(_ old: Bool?, _ new: Bool?) -> Bool? {
        switch (old, new) {
        case (true, false): false
        case (nil, false) where state.status == .active: false
        case (false, true): true
        default: nil
        }
    }

    /// The event for entering the present status; `nil` if there is none. There is none for `active`, because such a
    /// change is published as a start, renewal, extension, recovery or update.
    private var statusEvent: LedgerEvent.Kind? {
        switch state.status.known {
        case .billingGrace: .subscriptionGraceEntered
        case .billingRetry: .subscriptionRetryEntered
        case .expired: .subscriptionExpired
        case .stale: .subscriptionStale
        case .revoked: .subscriptionRevoked
        case .active, .upgraded, nil: nil
        }
    }
}

extension LedgerEvent.Kind {
    /// Whether the event implies the end of access.
    fileprivate var endsAccess: Bool {
        switch self {
        case .subscriptionExpired, .subscriptionRetryEntered, .subscriptionRevoked, .refunded, .shareEnded: true
        default: false
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The state of a purchase (see ``Chain``) in events. Answers about customers contain the same state.
public struct ChainState: Hashable, Sendable, Decodable {
    /// The status of a subscription. Any other purchase is `active`, `expired` or `revoked`: `revoked` if it was
    /// refunded completely, is no longer shared, or is refused by the operator. A newer version may have published a
    /// status unknown to this version.
    public var status: Open<SubscriptionState.Status>
    /// The product of the period that decides a subscription's status, or of the last transaction of any other
    /// purchase; `nil` for a purchase of the app itself.
    public var productId: String?
    /// The transaction of a subscription's last paid period, or of the last transaction of any other purchase; `nil`
    /// for a purchase of the app itself.
    public var transactionId: String?
    /// Whether the purchase gives access by itself; see ``Access/isGiven``.
    public var hasAccess: Bool
    /// The instant at which access ends or ended, exclusive; `nil` for no end. See ``Access/until``.
    public var until: Timestamp?
    /// Whether a subscription will renew; `nil` if unknown.
    public var willRenew: Bool?
    /// Whether a further commitment to several monthly payments follows the present commitment; `nil` if unknown, and
    /// without a commitment.
    public var commitmentWillRenew: Bool?
    /// The terms of a subscription's next renewal; see ``SubscriptionState/renewal``.
    public var renewal: RenewalTerms?

    public init(
        status: SubscriptionState.Status, productId: String? = nil, transactionId: String? = nil,
        hasAccess: Bool, until: Timestamp? = nil, willRenew: Bool? = nil, commitmentWillRenew: Bool? = nil,
        renewal: RenewalTerms? = nil
    ) {
        self.status = Open(status)
        self.productId = productId
        self.transactionId = transactionId
        self.hasAccess = hasAccess
        self.until = until
        self.willRenew = willRenew
        self.commitmentWillRenew = commitmentWillRenew
        self.renewal = renewal
    }
}

extension ChainState {
    /// The state of a subscription.
    init(_ subscription: SubscriptionState) {
        status = Open(subscription.status)
        productId = subscription.governing.productId
        transactionId = subscription.lastPaid.transactionId
        hasAccess = subscription.hasAccess
        until = subscription.accessUntil
        willRenew = subscription.willRenew
        commitmentWillRenew = subscription.commitmentWillRenew
        renewal = subscription.renewal
    }

    /// The state of purchases other than subscriptions. Of several, the access that lasts longest counts. If all
    /// purchases count in other chains (``Chain/counts(_:)``), access ended here at the signing of the newest document.
    init(_ history: PurchaseHistory, of chain: Chain) {
        let purchases = history.purchases + [history.app].compactMap(\.self)
        let moved = purchases.isEmpty ? chain.transactions.values.compactMap(\.current) : []
        let access =
            purchases.map { history.access(of: $0) }
            + moved.map { Access(lost: $0, at: $0.provenance.signedDate) }
        let longest = access.max { left, right in
            let ends = (left.until ?? .distantFuture, right.until ?? .distantFuture)
            return left.isGiven == right.isGiven ? ends.0 < ends.1 : right.isGiven
        }
        hasAccess = longest?.isGiven ?? false
        until = longest == nil ? Timestamp(milliseconds: 0) : longest?.until
        // A non-consumable with several transaction ids is revoked if any of its transactions is revoked.
        let isOver = purchases.contains {
            ($0.type == .nonRenewingSubscription || $0.isAppPurchase) && $0.revocation == nil
        }
        status = Open(hasAccess ? .active : isOver && !history.isRefused ? .expired : .revoked)
        productId = history.purchases.last?.productId
        transactionId = history.purchases.last?.transactionId
    }
}

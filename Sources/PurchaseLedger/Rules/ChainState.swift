// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The state of a purchase (see ``Chain``) in events. Answers about customers contain the same state.
public struct ChainState: Hashable, Sendable, Decodable {
    /// The status of a subscription. Any other purchase is `active`, `expired` or `revoked`: `revoked` if it was
    /// refunded completely, is no longer shared, or is refused by the operator. A newer version may have published a
    /// status unknown to this version.
    public var status: Open<SubscriptionState.Status>
    /// The product of a subscription's ``SubscriptionState/governing`` period, or of the last purchase in any other
    /// chain.
    public var productId: String?
    /// The end of access; `nil` if there is no access, or if access does not end. For a subscription, the value is
    /// ``SubscriptionState/accessUntil``.
    public var until: Timestamp?
    /// Whether a subscription will renew; `nil` if unknown.
    public var willRenew: Bool?
    /// Whether a further commitment to several monthly payments follows the present commitment; `nil` if unknown, and
    /// without a commitment.
    public var commitmentWillRenew: Bool?

    public init(
        status: SubscriptionState.Status, productId: String? = nil, until: Timestamp? = nil, willRenew: Bool? = nil,
        commitmentWillRenew: Bool? = nil
    ) {
        self.status = Open(status)
        self.productId = productId
        self.until = until
        self.willRenew = willRenew
        self.commitmentWillRenew = commitmentWillRenew
    }
}

extension ChainState {
    /// The state of a subscription.
    init(_ subscription: SubscriptionState) {
        status = Open(subscription.status)
        productId = subscription.governing.productId
        until = subscription.accessUntil
        willRenew = subscription.willRenew
        commitmentWillRenew = subscription.commitmentWillRenew
    }

    /// The state of purchases other than subscriptions.
    init(_ history: PurchaseHistory, _ grants: [Grant]) {
        let isUsable = !grants.isEmpty || history.consumables.contains { $0.revokedQuantity < $0.quantity }
        // Only non-renewing subscriptions expire. A non-consumable with several transaction ids is revoked if any of
        // its transactions is revoked.
        let isOver = history.purchases.contains { $0.type == .nonRenewingSubscription && $0.revocation == nil }
        status = Open(isUsable ? .active : isOver && !history.isRefused ? .expired : .revoked)
        productId = history.purchases.last?.productId
        let end = grants.map { $0.until ?? .distantFuture }.max()
        until = end == .distantFuture ? nil : end
    }
}

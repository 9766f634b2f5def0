// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The state of one chain in events. It equals the state in answers.
public struct ChainState: Hashable, Sendable, Decodable {
    /// The status of a subscription. For another purchase: `active`, `revoked` if all of it was refunded or the
    /// operator refuses it, or `expired`. What a newer version published may have a status that this one does not know.
    public var status: Open<SubscriptionState.Status>
    /// The product of a subscription's governing period; otherwise that of the last purchase.
    public var productId: String?
    /// When access ends; `nil` if there is no access, or if it does not end. For a subscription, this is
    /// ``SubscriptionState/accessUntil``.
    public var until: Timestamp?
    /// Whether a subscription will renew; `nil` if unknown.
    public var willRenew: Bool?
    /// Whether another commitment follows the present one; `nil` if unknown, and without a commitment.
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
        // Only a non-renewing subscription expires. A non-consumable with several transaction ids is revoked if one of
        // them is.
        let isOver = history.purchases.contains { $0.type == .nonRenewingSubscription && $0.revocation == nil }
        status = Open(isUsable ? .active : isOver && !history.isRefused ? .expired : .revoked)
        productId = history.purchases.last?.productId
        let end = grants.map { $0.until ?? .distantFuture }.max()
        until = end == .distantFuture ? nil : end
    }
}

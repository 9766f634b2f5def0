// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A subscription as the App Store knows it: its transactions, its next renewal and its state.
///
/// The payloads have all members that the App Store signs, except `signedDate`. The functions in
/// `SubscriptionEvents.swift` are the events in the life of a subscription. Such a function changes the payloads as
/// Apple does and returns the type of Apple's notification, or throws if the event is not possible in the present
/// state.
public struct SubscriptionChain: Hashable, Sendable {
    /// The state of a subscription.
    public enum State: Hashable, Sendable {
        case active
        /// The charge failed. The customer keeps access until the given time.
        case grace(until: Timestamp)
        /// The charge failed, and the customer has no access. The App Store retries the charge until the given time.
        case retry(until: Timestamp)
        case expired
        case revoked
    }

    /// The present state.
    public internal(set) var state: State = .active
    /// The transactions in the order of their purchases; never empty.
    public internal(set) var transactions: [JWSTransactionDecodedPayload]
    /// The renewal info.
    public internal(set) var renewal: JWSRenewalInfoDecodedPayload
    /// The original transaction id of the purchaser's subscription, if this subscription is a family member's.
    public internal(set) var sharedFrom: String?
    /// The id of the purchaser's transaction that a family member's newest transaction copies.
    var followed: String?
    /// The times of the developer's extensions. Apple allows only two extensions within 365 days.
    public internal(set) var extensions: [Timestamp] = []
    /// The time at which renewal was last turned on or off; `nil` before the first change.
    var renewalSwitched: Timestamp?
    /// The number of renewals since the customer's last purchase. The sandbox ends a subscription after twelve
    /// renewals.
    var renewals = 0
    /// The higher price that awaits the customer's consent, for the present product, in milliunits.
    var askedPrice: Int64?
    /// The price increase status of the present product. Renewal info shows this status, unless the customer has chosen
    /// a different product for the next period.
    var priceIncreaseStatus: Open<PriceIncreaseStatus>?
    /// The price that the customer agreed to for the present product, in milliunits.
    var agreedPrice: Int64?
    /// The offer that still reduces the next renewals, and the number of reduced payments that remain; `nil` for no
    /// such offer.
    var runningOffer: RunningOffer?
    /// The offer that will first reduce the next renewal; `nil` for none.
    var nextOffer: StoreOffer?
    /// The reason why the subscription must end with the present period, even if the customer can pay; `nil` if no
    /// end is planned.
    var plannedEnd: ExpirationIntent?
    /// The commitment to twelve months that the customer pays monthly; `nil` for payment in advance.
    var commitment: Commitment?

    struct RunningOffer: Hashable, Sendable {
        var offer: StoreOffer
        var paymentsLeft: Int
    }

    /// The newest transaction.
    public var current: JWSTransactionDecodedPayload {
        get { transactions[transactions.count - 1] }
        set { transactions[transactions.count - 1] = newValue }
    }

    /// The end of the newest period.
    public var end: Timestamp { current.expiresDate ?? Timestamp(milliseconds: 0) }

    /// Whether the App Store charges at the end of the period.
    public var isRenewing: Bool { renewal.autoRenewStatus == .on }

    /// Whether the next period is of the present product.
    var renewsPresentPlan: Bool { renewal.autoRenewProductId == current.productId }

    /// Whether the next period needs a consent that the customer has not given.
    var lacksConsent: Bool { askedPrice != nil && renewsPresentPlan }

    /// The offer that reduces the price of the next period.
    var offerOfNextRenewal: StoreOffer? { nextOffer ?? (renewsPresentPlan ? runningOffer?.offer : nil) }

    /// Whether the subscription is in its billing grace period.
    public var isInGrace: Bool {
        if case .grace = state { true } else { false }
    }

    /// Whether the App Store retries the charge, without access for the customer.
    public var isInRetry: Bool {
        if case .retry = state { true } else { false }
    }

    /// Whether the customer has paid for the period, or the App Store still retries the charge.
    var isRunning: Bool { state == .active || isInGrace || isInRetry }
}

extension SubscriptionChain.State {
    /// The status that Apple signs.
    var status: SubscriptionStatus {
        switch self {
        case .active: .active
        case .grace: .billingGracePeriod
        case .retry: .billingRetry
        case .expired: .expired
        case .revoked: .revoked
        }
    }
}

/// The identifiers of a new transaction.
struct TransactionIds: Hashable, Sendable {
    var transactionId: String
    var webOrderLineItemId: String
}

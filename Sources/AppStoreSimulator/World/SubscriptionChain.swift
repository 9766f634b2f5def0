// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// One subscription as the App Store knows it: its transactions, its next renewal, and where it stands.
///
/// The payloads are those that are signed, without their `signedDate`. Each function of `SubscriptionEvents.swift` is
/// one event in the life of a subscription. It changes the payloads as Apple does and returns the notification that
/// Apple sends, or throws if the event is not possible in this state.
public struct SubscriptionChain: Hashable, Sendable {
    /// Where the subscription stands.
    public enum State: Hashable, Sendable {
        case active
        /// The charge failed. The customer keeps access until the instant.
        case grace(until: Timestamp)
        /// The charge failed and there is no access. The App Store charges again until the instant.
        case retry(until: Timestamp)
        case expired
        case revoked
    }

    /// Where the subscription stands.
    public internal(set) var state: State = .active
    /// In the order in which they were bought; never empty.
    public internal(set) var transactions: [JWSTransactionDecodedPayload]
    /// The renewal info.
    public internal(set) var renewal: JWSRenewalInfoDecodedPayload
    /// The original transaction id of the purchaser's subscription, if a family member shares it.
    public internal(set) var sharedFrom: String?
    /// The purchaser's transaction that the newest one of a family member copies.
    var followed: String?
    /// When the developer extended it, since only two extensions within 365 days are possible.
    public internal(set) var extensions: [Timestamp] = []
    /// When renewal was last turned on or off; `nil` if it never was.
    var renewalSwitched: Timestamp?
    /// Renewals since the customer last bought it: the sandbox ends a subscription after some.
    var renewals = 0
    /// The price that the customer was asked to agree to, in milliunits; of the present product only.
    var askedPrice: Int64?
    /// What the present product's renewal info says about a price increase, unless another product is next.
    var priceIncreaseStatus: Open<PriceIncreaseStatus>?
    /// The price that the customer agreed to, in milliunits; of the present product only.
    var agreedPrice: Int64?
    /// The offer that goes on at the next renewals, and how many of its payments are left.
    var runningOffer: RunningOffer?
    /// The offer that begins at the next renewal.
    var nextOffer: StoreOffer?
    /// Why it will end with the present period, whatever the customer pays.
    var plannedEnd: ExpirationIntent?
    /// The commitment that the customer pays in months.
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

    /// Whether it is in its billing grace period.
    public var isInGrace: Bool {
        if case .grace = state { true } else { false }
    }

    /// Whether the App Store tries to charge again, without access.
    public var isInRetry: Bool {
        if case .retry = state { true } else { false }
    }

    /// Whether the customer has paid for the period, or the App Store still tries to charge.
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

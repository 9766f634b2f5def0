// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// One subscription as the App Store knows it: its transactions, what happens at the next renewal, and where it stands.
///
/// The state is what will be signed: Apple's own payloads without their `signedDate`. Each function is one event of the
/// App Store's life of a subscription. It changes the payloads as Apple does and returns the notification that Apple sends,
/// or throws if the event is not possible in this state.
public struct SubscriptionChain: Hashable, Sendable {
    /// Where the subscription stands.
    public enum State: Hashable, Sendable {
        case active
        /// The charge failed. Access goes on until the instant.
        case grace(until: Timestamp)
        /// The charge failed and there is no access. The App Store charges again until the instant.
        case retry(until: Timestamp)
        case expired
        case revoked
    }

    public internal(set) var state: State = .active
    /// In the order in which they were bought; never empty.
    public internal(set) var transactions: [JWSTransactionDecodedPayload]
    public internal(set) var renewal: JWSRenewalInfoDecodedPayload
    /// Renewals since the customer last bought it: the sandbox ends a subscription after some.
    var renewals = 0
    /// The price that the customer was asked to agree to, in milliunits.
    var askedPrice: Int64?
    /// The offer that goes on at the next renewals, and how many of its payments are left.
    var runningOffer: RunningOffer?
    /// The offer that begins at the next renewal.
    var nextOffer: StoreOffer?

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

    public var isRenewing: Bool { renewal.autoRenewStatus == .on }
}

/// What the App Store notifies an app's server about.
public struct Notice: Hashable, Sendable {
    public var type: NotificationTypeV2
    public var subtype: NotificationSubtype?
    /// The transaction that the notification brings along.
    public var transactionId: String?
    /// Why the customer wants a refund: of a consumption request only.
    public var reason: ConsumptionRequestReason?

    init(
        _ type: NotificationTypeV2, _ subtype: NotificationSubtype? = nil, _ transactionId: String?,
        reason: ConsumptionRequestReason? = nil
    ) {
        self.type = type
        self.subtype = subtype
        self.transactionId = transactionId
        self.reason = reason
    }
}

/// The identifiers of a new transaction.
struct TransactionIds: Hashable, Sendable {
    var transactionId: String
    var webOrderLineItemId: String
}

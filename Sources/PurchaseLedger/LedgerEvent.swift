// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Something that changed, told once.
public struct LedgerEvent: Hashable, Sendable {
    /// What it is.
    public enum Kind: String, CaseIterable, Sendable {
        /// A subscription that was not known.
        case subscriptionStarted = "subscription.started"
        /// A later period.
        case subscriptionRenewed = "subscription.renewed"
        /// The same period ends later.
        case subscriptionExtended = "subscription.extended"
        /// Paid for again, after it had ended or its charge had failed.
        case subscriptionRecovered = "subscription.recovered"
        /// Another product governs.
        case subscriptionProductChanged = "subscription.productChanged"
        /// It will no longer renew.
        case subscriptionRenewalDisabled = "subscription.renewalDisabled"
        /// It will renew again.
        case subscriptionRenewalEnabled = "subscription.renewalEnabled"
        /// The charge failed, service goes on.
        case subscriptionGraceEntered = "subscription.graceEntered"
        /// The charge failed, service ends.
        case subscriptionRetryEntered = "subscription.retryEntered"
        case subscriptionExpired = "subscription.expired"
        /// The period is over, and what became of it is not known.
        case subscriptionStale = "subscription.stale"
        /// The governing period was refunded or its sharing ended.
        case subscriptionRevoked = "subscription.revoked"
        /// Something bought once.
        case purchased = "purchase.made"
        case refunded = "purchase.refunded"
        case refundReversed = "purchase.refundReversed"
        /// Time ended what no other event tells the end of: a non-renewing subscription, or the leeway of one that is stale.
        case accessEnded = "purchase.accessEnded"
        /// A purchase became a customer's.
        case linked = "purchase.linked"
        case unlinked = "purchase.unlinked"
        /// Two of an app's customers became one.
        case customersMerged = "customer.merged"
        case customerDeleted = "customer.deleted"
        /// A notification without a purchase, such as TEST, or of a type that is not known.
        case notificationReceived = "notification.received"
    }

    /// Its place in the order of all events: greater than those of all before it. 0 until it is recorded.
    public var sequence: Int64
    public var kind: Kind
    public var scope: LedgerScope
    /// When the ledger noticed.
    public var recordedAt: Timestamp
    /// Whom it concerns, a customer of this app.
    public var customer: Customer?
    public var originalTransactionId: String?
    public var transactionId: String?
    public var productId: String?
    /// What else there is to say, such as the type of a notification.
    public var detail: String?

    public init(
        _ kind: Kind, in scope: LedgerScope, at recordedAt: Timestamp, customer: Customer? = nil,
        originalTransactionId: String? = nil, transactionId: String? = nil, productId: String? = nil,
        detail: String? = nil
    ) {
        sequence = 0
        self.kind = kind
        self.scope = scope
        self.recordedAt = recordedAt
        self.customer = customer
        self.originalTransactionId = originalTransactionId
        self.transactionId = transactionId
        self.productId = productId
        self.detail = detail
    }
}

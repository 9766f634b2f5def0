// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Something that changed, published once.
///
/// A consumer that keeps the `after` of the last event of each chain has the state that answers give, once all changes up to that
/// instant are published.
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
        /// Something about it changed that no other event names: see `before` and `after`.
        case subscriptionUpdated = "subscription.updated"
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
        /// The App Store gave the subscription another original transaction id, which is the `detail`. What is known of it is
        /// there from now on.
        case subscriptionMigrated = "subscription.migrated"
        /// Something bought once.
        case purchased = "purchase.made"
        case refunded = "purchase.refunded"
        case refundReversed = "purchase.refundReversed"
        /// Access ended, and no other event says so: that of a non-renewing subscription, or of a stale one after its leeway.
        case accessEnded = "purchase.accessEnded"
        /// Something about it changed that no other event names, such as the end of a non-renewing subscription by another catalogue.
        case purchaseUpdated = "purchase.updated"
        /// A purchase became a customer's.
        case linked = "purchase.linked"
        case unlinked = "purchase.unlinked"
        /// Two of an app's customers became one.
        case customersMerged = "customer.merged"
        case customerDeleted = "customer.deleted"
        /// A notification without a purchase, such as TEST, or of a type that is not known.
        case notificationReceived = "notification.received"
    }

    /// Its place among the app's events. The storage assigns it.
    public var cursor: EventCursor?
    public var kind: Kind
    public var scope: LedgerScope
    /// When the ledger noticed. It never goes back within one chain.
    public var recordedAt: Timestamp
    /// When the change took effect: the instant at which time brought it, else when the App Store signed the document that did.
    public var effectiveAt: Timestamp
    /// The customer it concerns, of this app.
    public var customer: Customer?
    public var originalTransactionId: String?
    public var transactionId: String?
    public var productId: String?
    /// What else there is to say, such as the type of a notification.
    public var detail: String?
    /// The state of the chain that was published before; `nil` if there was none, or the customer did not have the chain.
    public var before: ChainState?
    /// The state of the chain; `nil` if the customer does not have the chain any more, and of events about no chain.
    public var after: ChainState?

    public init(
        _ kind: Kind, in scope: LedgerScope, at recordedAt: Timestamp, customer: Customer? = nil,
        originalTransactionId: String? = nil, transactionId: String? = nil, productId: String? = nil,
        detail: String? = nil
    ) {
        self.kind = kind
        self.scope = scope
        self.recordedAt = recordedAt
        effectiveAt = recordedAt
        self.customer = customer
        self.originalTransactionId = originalTransactionId
        self.transactionId = transactionId
        self.productId = productId
        self.detail = detail
    }
}

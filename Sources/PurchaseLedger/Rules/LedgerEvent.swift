// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A change, published once.
///
/// An event has the members by which it is found or numbered, and a ``body`` with all else that it says, which
/// `EventContent` reads. The answer of `GET /v1/events` is these members followed by those of the body.
///
/// A consumer can keep the `after` of each chain's last event. Once all changes up to an instant are published, these
/// states equal those in answers at that instant.
public struct LedgerEvent: Hashable, Sendable {
    /// The kinds of changes.
    public enum Kind: String, CaseIterable, Sendable {
        /// A new subscription.
        case subscriptionStarted = "subscription.started"
        /// A later period was paid for.
        case subscriptionRenewed = "subscription.renewed"
        /// The same period ends later.
        case subscriptionExtended = "subscription.extended"
        /// The subscription was paid for again, after it had ended or its charge had failed.
        case subscriptionRecovered = "subscription.recovered"
        /// A change that no other event names: see `before` and `after`.
        case subscriptionUpdated = "subscription.updated"
        /// The governing period is of another product.
        case subscriptionProductChanged = "subscription.productChanged"
        /// The subscription will no longer renew.
        case subscriptionRenewalDisabled = "subscription.renewalDisabled"
        /// The subscription will renew again.
        case subscriptionRenewalEnabled = "subscription.renewalEnabled"
        /// No other commitment will follow the present one.
        case subscriptionCommitmentRenewalDisabled = "subscription.commitmentRenewalDisabled"
        /// Another commitment will follow the present one again.
        case subscriptionCommitmentRenewalEnabled = "subscription.commitmentRenewalEnabled"
        /// The charge failed, and the grace period begins.
        case subscriptionGraceEntered = "subscription.graceEntered"
        /// The charge failed, and access ends.
        case subscriptionRetryEntered = "subscription.retryEntered"
        case subscriptionExpired = "subscription.expired"
        /// The period is over, and no document says what followed.
        case subscriptionStale = "subscription.stale"
        /// The governing period was refunded or its sharing ended.
        case subscriptionRevoked = "subscription.revoked"
        /// The App Store gave the subscription another original transaction id, which is in `detail`. All facts moved
        /// there.
        case subscriptionMigrated = "subscription.migrated"
        /// A new purchase that is not a subscription.
        case purchased = "purchase.made"
        case refunded = "purchase.refunded"
        case refundReversed = "purchase.refundReversed"
        /// Access ended, and no other event says so: a non-renewing subscription ended, or the leeway of a stale
        /// subscription.
        case accessEnded = "purchase.accessEnded"
        /// A change that no other event names, such as another end of a non-renewing subscription after the catalogue
        /// changed.
        case purchaseUpdated = "purchase.updated"
        /// The App Store asks for information about a purchase that the customer wants refunded.
        case consumptionRequested = "purchase.consumptionRequested"
        /// A purchase got an owner.
        case linked = "purchase.linked"
        /// A purchase lost an owner.
        case unlinked = "purchase.unlinked"
        /// Two of an app's customers became one.
        case customersMerged = "customer.merged"
        case customerDeleted = "customer.deleted"
        /// A notification without a purchase, such as TEST, or of an unknown type.
        case notificationReceived = "notification.received"
    }

    /// The event's position among those of its app, assigned by the storage.
    public var cursor: EventCursor?
    /// What changed. A newer version may have published a kind that this one does not know.
    public var kind: Open<Kind>
    /// The app and environment.
    public var scope: LedgerScope
    /// When the ledger recorded the change. Within one chain it never decreases.
    public var recordedAt: Timestamp
    /// The customer that the event concerns.
    public var customer: Customer?
    /// The name of the chain that changed, see ``ChainKey/name``; `nil` if a customer changed.
    public var chainName: String?
    /// The other members of the event: a JSON object, which is written once and never changes. Storages and readers
    /// copy its bytes, so that members of a newer version survive. It names no customer, and so stays as it is if the
    /// customer is merged or erased.
    public var body: [UInt8]

    /// Makes an event of any kind, such as a storage has it.
    public init(
        _ kind: Open<Kind>, in scope: LedgerScope, at recordedAt: Timestamp, customer: Customer?, chainName: String?,
        body: [UInt8]
    ) {
        self.kind = kind
        self.scope = scope
        self.recordedAt = recordedAt
        self.customer = customer
        self.chainName = chainName
        self.body = body
    }
}

extension LedgerEvent {
    /// The transaction id of the chain's first purchase; `nil` if a customer changed.
    public var originalTransactionId: String? { chainName.map { ChainName.originalTransactionId(in: $0) } }
}

/// A page of one app's events.
public struct EventPage: Sendable {
    /// The events in the order of their cursors.
    public var events: [LedgerEvent]
    /// The first id of each customer in the events, unless the customer was erased.
    public var customerIds: [Customer: String]
    /// The position after the last event; if there are no events, the position of the request.
    public var next: EventCursor

    public init(events: [LedgerEvent], customerIds: [Customer: String], next: EventCursor) {
        self.events = events
        self.customerIds = customerIds
        self.next = next
    }
}

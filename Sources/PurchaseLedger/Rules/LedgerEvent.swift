// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A change, published once.
///
/// An event has members by which it is found or numbered, and a ``body`` with all other members. `EventContent` reads
/// the body. The answer of `GET /v1/events` is the event's own members, followed by the members of the body.
///
/// A consumer can mirror the ledger by keeping ``EventContent/after`` of the last event of each chain (``Chain``) that
/// is about no payment. Once all changes up to an instant are published, the kept states equal the states in answers at
/// that instant.
public struct LedgerEvent: Hashable, Sendable {
    /// The kinds of changes.
    public enum Kind: String, CaseIterable, Sendable {
        /// A transaction is new to the ledger.
        case transactionRecorded = "transaction.recorded"
        /// The price, the currency, the storefront, the ownership, the end or an upgrade of a known transaction became
        /// known, or changed.
        case transactionCompleted = "transaction.completed"
        /// A known transaction was refunded, its refund grew, or its sharing ended.
        case transactionRevoked = "transaction.revoked"
        /// A revoked transaction is not revoked any more.
        case transactionRevocationReversed = "transaction.revocationReversed"
        /// A new purchase of the app itself.
        case appRecorded = "app.recorded"
        /// A new subscription.
        case subscriptionStarted = "subscription.started"
        /// A later period was paid for.
        case subscriptionRenewed = "subscription.renewed"
        /// The last paid period ends later than before.
        case subscriptionExtended = "subscription.extended"
        /// The subscription is active again, after it had ended, its charge had failed, or it had been revoked.
        case subscriptionRecovered = "subscription.recovered"
        /// A change without an event kind of its own: see `before` and `after`.
        case subscriptionUpdated = "subscription.updated"
        /// The product of the period that decides the status changed.
        case subscriptionProductChanged = "subscription.productChanged"
        /// The subscription will no longer renew.
        case subscriptionRenewalDisabled = "subscription.renewalDisabled"
        /// The subscription will renew again.
        case subscriptionRenewalEnabled = "subscription.renewalEnabled"
        /// No further commitment will follow the present commitment to several monthly payments.
        case subscriptionCommitmentRenewalDisabled = "subscription.commitmentRenewalDisabled"
        /// A further commitment will follow the present commitment again.
        case subscriptionCommitmentRenewalEnabled = "subscription.commitmentRenewalEnabled"
        /// The customer chose a different product for the next period, or withdrew the choice: see `after.renewal`.
        case subscriptionNextProductChanged = "subscription.nextProductChanged"
        /// The App Store asks the customer to consent to a higher price.
        case subscriptionPriceIncreaseAsked = "subscription.priceIncreaseAsked"
        /// The customer consented to a higher price, or was told of an increase that needs no consent.
        case subscriptionPriceIncreaseAccepted = "subscription.priceIncreaseAccepted"
        /// The subscription ended because the customer did not consent to a higher price.
        case subscriptionPriceIncreaseRefused = "subscription.priceIncreaseRefused"
        /// The charge failed, and the grace period begins.
        case subscriptionGraceEntered = "subscription.graceEntered"
        /// The charge failed, and access ends.
        case subscriptionRetryEntered = "subscription.retryEntered"
        /// The subscription ended.
        case subscriptionExpired = "subscription.expired"
        /// The period is over, and no document about a renewal or an end has arrived.
        case subscriptionStale = "subscription.stale"
        /// The period that decides the status was refunded, its sharing ended, or the operator refuses the purchase.
        case subscriptionRevoked = "subscription.revoked"
        /// The App Store gave the subscription a new original transaction id. The event has the new id in `detail`.
        /// All facts moved to it.
        case subscriptionMigrated = "subscription.migrated"
        /// A new purchase other than an auto-renewable subscription or the app itself.
        case purchased = "purchase.made"
        /// The payer's transaction was refunded.
        case refunded = "purchase.refunded"
        /// A refund was reversed.
        case refundReversed = "purchase.refundReversed"
        /// The App Store declined a refund that the customer had asked for.
        case refundDeclined = "purchase.refundDeclined"
        /// What a member of the family, or the payer of a seat, shared was revoked.
        case shareEnded = "purchase.shareEnded"
        /// Access ended, and no other event says so. For example, a non-renewing subscription ended, or the leeway of a
        /// stale subscription did.
        case accessEnded = "purchase.accessEnded"
        /// A change without an event kind of its own. For example, a non-renewing subscription ends at a different time
        /// after the configuration changed.
        case purchaseUpdated = "purchase.updated"
        /// The App Store asks for information about a purchase because the customer wants a refund.
        case consumptionRequested = "purchase.consumptionRequested"
        /// A purchase got an owner.
        case linked = "purchase.linked"
        /// A purchase lost an owner.
        case unlinked = "purchase.unlinked"
        /// The app's backend or the operator denied a purchase, which then grants nothing.
        case purchaseDenied = "purchase.denied"
        /// A denied purchase is allowed again.
        case purchaseAllowed = "purchase.allowed"
        /// Two of an app's customers were merged.
        case customersMerged = "customer.merged"
        /// A merge was undone: the customer exists again.
        case customerUnmerged = "customer.unmerged"
        /// A customer got an id that no customer had.
        case aliasAdded = "customer.aliasAdded"
        /// A customer lost an id.
        case aliasRemoved = "customer.aliasRemoved"
        /// A customer was deleted.
        case customerDeleted = "customer.deleted"
        /// Attributes of a customer were set or removed.
        case attributesChanged = "customer.attributesChanged"
        /// A customer consents to answers about consumption, or no longer does.
        case consentChanged = "customer.consentChanged"
        /// The setting changed that decides for which customers of the app sandbox purchases count.
        case environmentsChanged = "customer.environmentsChanged"
        /// A customer got an entitlement by a grant (see ``CustomerGrant``), whose id is in `grantId`.
        case grantMade = "grant.made"
        /// A grant belongs to a different customer since a merge.
        case grantMoved = "grant.moved"
        /// A grant ended, by time or by hand.
        case grantEnded = "grant.ended"
        /// A notification of which no other event tells: without a purchase, such as TEST, of an unknown type, or about
        /// a failed extension.
        case notificationReceived = "notification.received"
        /// An epoch of the events began (see ``EventEpoch``), because events may have been lost: the first event of the
        /// app in each environment. Filters of events let it through.
        case ledgerRestored = "ledger.restored"
    }

    /// The event's position among the events of its app. `nil` until the storage assigns it.
    public var cursor: EventCursor?
    /// The kind of the change. A newer version may have published a kind unknown to this version.
    public var kind: Open<Kind>
    /// The app and environment.
    public var scope: LedgerScope
    /// The time at which the ledger recorded the change. Within a chain the time never decreases.
    public var recordedAt: Timestamp
    /// The customer concerned by the event; `nil` if the event concerns no customer.
    public var customer: Customer?
    /// The name of the changed chain, see ``ChainKey/name``; `nil` if no chain changed.
    public var chainName: String?
    /// The other members of the event: a JSON object, written once and never changed. Storages and readers copy its
    /// bytes, so that members of a newer version survive. The body names no customer, so a merge or erasure of the
    /// customer leaves the body unchanged.
    public var body: [UInt8]

    /// Makes an event of any kind, for example from the fields in a storage.
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

extension LedgerEvent.Kind {
    /// Whether the event is about a customer as such, in all environments, and about no purchase or grant.
    package var isAboutCustomer: Bool {
        switch self {
        case .customersMerged, .customerUnmerged, .customerDeleted, .aliasAdded, .aliasRemoved, .attributesChanged,
            .consentChanged, .environmentsChanged:
            true
        default: false
        }
    }

    /// Whether the customer of the event has other ids since.
    var changesIds: Bool { [.customersMerged, .customerUnmerged, .aliasAdded, .aliasRemoved].contains(self) }

    /// Whether the event says what was paid for a transaction. All other events about a purchase say what a customer
    /// may use.
    package var isAboutPayment: Bool {
        switch self {
        case .transactionRecorded, .transactionCompleted, .transactionRevoked, .transactionRevocationReversed: true
        default: false
        }
    }
}

extension LedgerEvent {
    /// The transaction id of the chain's first purchase; `nil` if no chain changed.
    public var originalTransactionId: String? { chainName.map { ChainName.originalTransactionId(in: $0) } }
}

/// A page of an app's events.
public struct EventPage: Sendable {
    /// The events in the order of their cursors.
    public var events: [LedgerEvent]
    /// The first id of each customer in the events, unless the customer was erased or merged into a different customer.
    public var customerIds: [Customer: String]
    /// The first id that each merged customer, and each customer deleted in the last 30 days, had itself. Only the
    /// pages of a ``Ledger`` have these ids.
    public var formerIds: [Customer: String] = [:]
    /// The ids with which the deletions of the last 30 days were requested. Only the pages of a ``Ledger`` have these
    /// ids.
    public var deletedIds: [Customer: String] = [:]
    /// All ids of the customers deleted in the last 30 days. Only the pages of a ``Ledger`` have these ids.
    public var allDeletedIds: [Customer: [String]] = [:]
    /// The ids that were taken off customers in the last 30 days, by their numbers (``EventContent/removedId``). Only
    /// the pages of a ``Ledger`` have these ids.
    public var removedIds: [Customer: [Int64: String]] = [:]
    /// All present ids of the customers in events about ids. Only the pages of a ``Ledger`` have these ids.
    public var allIds: [Customer: [String]] = [:]
    /// The present attributes of the customers in events about attributes. Only the pages of a ``Ledger`` have them.
    public var attributes: [Customer: CustomerAttributes] = [:]
    /// The position after the last event; without events, the position of the request.
    public var next: EventCursor

    public init(events: [LedgerEvent], customerIds: [Customer: String], next: EventCursor) {
        self.events = events
        self.customerIds = customerIds
        self.next = next
    }
}

extension EventPage {
    /// The id by which an event of the page names its customer; `nil` if the event names no customer. A customer that
    /// was merged later is named as before the merge, so that a late reader applies the same changes in the same order
    /// as a prompt one. Of a deleted customer, only the event of the deletion has a name.
    public func customerId(of event: LedgerEvent) -> String? {
        guard let customer = event.customer else { return nil }
        if let id = customerIds[customer] { return id }
        return deletedIds[customer] == nil || event.kind == .customerDeleted ? formerIds[customer] : nil
    }

    /// All ids that the customer of a deletion had; `nil` for other events.
    public func allDeletedIds(of event: LedgerEvent) -> [String]? {
        guard let customer = event.customer, event.kind == .customerDeleted else { return nil }
        return allDeletedIds[customer]
    }

    /// The first id that the merged customer in the event of a merge had; `nil` for other events.
    public func mergedId(of event: LedgerEvent) -> String? { event.mergedCustomer.flatMap { formerIds[$0] } }

    /// The id that was taken off the customer of an event; `nil` for other events.
    public func removedId(of event: LedgerEvent) -> String? {
        guard let customer = event.customer, let number = event.removedId else { return nil }
        return removedIds[customer]?[number]
    }

    /// All present ids of the customer in an event about ids; `nil` for other events, and if the customer is gone.
    public func allIds(of event: LedgerEvent) -> [String]? {
        event.kind.known?.changesIds == true ? event.customer.flatMap { allIds[$0] } : nil
    }

    /// The id with which the deletion in an event was requested; `nil` for other events.
    public func deletedId(of event: LedgerEvent) -> String? {
        guard let customer = event.customer, event.kind == .customerDeleted else { return nil }
        return deletedIds[customer]
    }
}

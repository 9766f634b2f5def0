// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The JSON of a page of events.
struct EventsBody: Encodable, Sendable {
    var items: [EventBody]
    var nextCursor: String

    init(_ page: EventPage) {
        items = page.events.map { event in
            EventBody(event, customer: event.customer.flatMap { page.customerIds[$0] })
        }
        nextCursor = page.next.rawValue
    }
}

/// The JSON of an event.
struct EventBody: Encodable, Sendable {
    /// The cursor of the event: `GET /v1/events?after=…` with it returns the later events.
    var id: String?
    var kind: String
    var recordedAt: Timestamp
    var effectiveAt: Timestamp
    var bundleId: String
    var environment: String
    var customer: String?
    var originalTransactionId: String?
    var transactionId: String?
    var productId: String?
    var detail: String?
    @Nullable var before: ChainStateBody?
    @Nullable var after: ChainStateBody?

    init(_ event: LedgerEvent, customer: String?) {
        id = event.cursor?.rawValue
        kind = event.kind.rawValue
        recordedAt = event.recordedAt
        effectiveAt = event.effectiveAt
        bundleId = event.scope.bundleId
        environment = event.scope.environment.rawValue
        self.customer = customer
        originalTransactionId = event.originalTransactionId
        transactionId = event.transactionId
        productId = event.productId
        detail = event.detail
        before = event.before.map { ChainStateBody($0) }
        after = event.after.map { ChainStateBody($0) }
    }
}

/// The JSON of a subscription's or purchase's state in an event.
struct ChainStateBody: Encodable, Sendable {
    var status: String
    @Nullable var productId: String?
    @Nullable var until: Timestamp?
    @Nullable var willRenew: Bool?
    var commitmentWillRenew: Bool?

    init(_ state: ChainState) {
        status = state.status.rawValue
        productId = state.productId
        until = state.until
        willRenew = state.willRenew
        commitmentWillRenew = state.commitmentWillRenew
    }
}

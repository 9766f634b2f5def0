// SPDX-License-Identifier: Apache-2.0

// The JSON of a page of events.

import AppStoreModel
import PurchaseLedger

/// The JSON of a page of events.
struct EventPageBody: Encodable, Sendable {
    /// The events, in the order of their cursors.
    var items: [EventBody]
    /// The cursor after which the next page begins.
    var nextCursor: String

    init(_ page: EventPage) {
        items = page.events.map { event in EventBody(event, customer: event.customer.flatMap { page.customerIds[$0] }) }
        nextCursor = page.next.rawValue
    }
}

/// The JSON of an event: the members by which it is found, then those of its body, which is JSON already.
struct EventBody: Encodable, Sendable {
    /// The event's cursor: `GET /v1/events?after=…` with it returns the later events.
    var id: String?
    /// The first id of the event's customer; absent if there is none.
    var customer: String?
    /// A word of ``LedgerEvent/Kind``, or one of a newer version.
    var kind: String
    /// When the ledger recorded the event.
    var recordedAt: Timestamp
    /// The app.
    var bundleId: String
    /// `Production`, `Sandbox`, `Xcode` or `LocalTesting`.
    var environment: String
    /// Absent if the event is about no purchase.
    var originalTransactionId: String?
    /// The members of ``EventContent``. A newer version may have written others.
    ///
    /// Of an event whose body is damaged there are none: the followers of all other events go on, and `quittance check`
    /// reports it.
    var content: WrittenMembers

    init(_ event: LedgerEvent, customer: String?) {
        id = event.cursor?.rawValue
        self.customer = customer
        kind = event.kind.rawValue
        recordedAt = event.recordedAt
        bundleId = event.scope.bundleId
        environment = event.scope.environment.rawValue
        originalTransactionId = event.originalTransactionId
        content = WrittenMembers(of: Self.whole(event.body))
    }

    /// A body as an object without white space around its braces; empty if it is no JSON object, or has one of the
    /// members in front. A page with two members of one name could not be read, and a follower would not get past it.
    private static func whole(_ body: [UInt8]) -> [UInt8] {
        guard let json = JSONValue(readable: body), let members = json.members else { return [] }
        guard members.allSatisfy({ [nil, .content].contains(CodingKeys(stringValue: $0.name)) }) else { return [] }
        let isCompact = body.starts(with: "{\"".utf8) && body.last == UInt8(ascii: "}")
        return isCompact ? body : Array(json.compactText.utf8)
    }
}

// SPDX-License-Identifier: Apache-2.0

// The JSON of a page of events.

import AppStoreModel
import PurchaseLedger

/// The JSON of a page of events.
struct EventPageBody: Encodable, Sendable {
    /// The events, in the order of their cursors; with `newest` the newest first.
    var items: [EventBody]
    /// The cursor after which the next page begins.
    var nextCursor: String

    init(_ items: [EventBody], next: EventCursor) {
        self.items = items
        nextCursor = next.rawValue
    }

    init(_ page: EventPage) {
        items = page.events.map { EventBody($0, in: page) }
        nextCursor = page.next.rawValue
    }
}

/// The JSON of an event: the members that identify the event, then the members of its stored body.
struct EventBody: Encodable, Sendable {
    /// The event's cursor: `GET /v1/events?after=…` with this cursor returns the later events.
    var id: String?
    /// The first id of the event's customer, before the merge if the customer was merged later; absent if the event has
    /// no customer.
    var customer: String?
    /// The first id that the merged customer had before the merge; only in `customer.merged`.
    var mergedCustomer: String?
    /// The id that was taken off the customer; only in `customer.aliasRemoved`, for 30 days.
    var removedId: String?
    /// All ids that the customer has when the event is read; only in the kinds that change them, unless the customer is
    /// gone.
    var ids: [String]?
    /// The present values of the attributes that changed; only in `customer.attributesChanged`, unless the customer is
    /// gone.
    var attributes: AttributeList?
    /// The id with which the deletion was requested; only in `customer.deleted`, for 30 days.
    var deletedId: String?
    /// All ids that the deleted customer had; only in `customer.deleted`, for 30 days.
    var deletedIds: [String]?
    /// The kind; a newer version may have written one that this version does not know.
    var kind: Open<LedgerEvent.Kind>
    /// The time at which the ledger recorded the event, in milliseconds since 1970.
    var recordedAt: Timestamp
    /// The app.
    var bundleId: String
    /// `Production`, `Sandbox`, `Xcode` or `LocalTesting`.
    var environment: String
    /// The original transaction id of the purchase; absent if the event concerns no purchase.
    var originalTransactionId: String?
    /// The members of ``EventContent``. A newer version may have written other members.
    ///
    /// An event with a damaged body is sent without content, so that clients can read the events after it.
    /// `quittance check` reports the damage.
    var content: WrittenMembers

    init(_ event: LedgerEvent, in page: EventPage) {
        id = event.cursor?.rawValue
        customer = page.customerId(of: event)
        mergedCustomer = page.mergedId(of: event)
        removedId = page.removedId(of: event)
        ids = page.allIds(of: event)
        attributes = AttributeList(of: event, in: page)
        deletedId = page.deletedId(of: event)
        deletedIds = page.allDeletedIds(of: event)
        kind = event.kind
        recordedAt = event.recordedAt
        bundleId = event.scope.bundleId
        environment = event.scope.environment.rawValue
        originalTransactionId = event.originalTransactionId
        content = WrittenMembers(of: Self.whole(event.body))
    }

    /// A stored body as a JSON object without white space around its braces. The result is empty if the body is not a
    /// JSON object, or repeats a member of ``EventBody``. Otherwise the client's parser might reject the whole page
    /// because of a duplicate name, and the client could read no later event.
    ///
    /// The numbers of a merged customer and of a removed id, and the names of attributes are left out: the event has
    /// the ids and the attributes instead. Nearly every body has none of them, and is copied as the ledger wrote it.
    private static func whole(_ body: [UInt8]) -> [UInt8] {
        let isCompact = body.starts(with: "{\"".utf8) && body.last == UInt8(ascii: "}")
        if isCompact, let names = JSONValue.names(in: body), !names.contains(where: { mayBeOwn(body[$0]) }) {
            return body
        }
        guard let members = JSONValue(readable: body)?.members else { return [] }
        let references: [CodingKeys] = [.mergedCustomer, .removedId, .attributes]
        let shown = members.filter { member in
            member.value.integer == nil && member.value.array == nil
                || !references.contains { $0.stringValue == member.name }
        }
        guard shown.allSatisfy({ [nil, .content].contains(CodingKeys(stringValue: $0.name)) }) else { return [] }
        return isCompact && shown.count == members.count ? body : Array(JSONValue.object(shown).compactText.utf8)
    }

    /// Whether a name, as a body has it, may be that of a member of ``EventBody``. A name with escapes may be any.
    private static func mayBeOwn(_ name: ArraySlice<UInt8>) -> Bool {
        if name.indexOfFirst(UInt8(ascii: "\\")) != nil { return true }
        return name.count < ownNames.count && ownNames[name.count].contains { name.isSame(as: $0[...]) }
    }

    /// The names of the members beside the body, by their length.
    private static let ownNames: [[[UInt8]]] = {
        let names = CodingKeys.allCases.filter { $0 != .content }.map { Array($0.stringValue.utf8) }
        return (0...(names.map(\.count).max() ?? 0)).map { length in names.filter { $0.count == length } }
    }()

    private enum CodingKeys: CodingKey, CaseIterable {
        case id, customer, mergedCustomer, removedId, ids, attributes, deletedId, deletedIds, kind, recordedAt
        case bundleId, environment, originalTransactionId, content
    }
}

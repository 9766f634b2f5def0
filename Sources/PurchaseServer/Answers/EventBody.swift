// SPDX-License-Identifier: Apache-2.0

// The JSON of a page of events. The body of an event is in the form of the answer already, and is copied.

import AppStoreModel
import PurchaseLedger

extension EventPage {
    /// The page as JSON.
    var json: [UInt8] {
        var writer = JSONWriter(reservingCapacity: events.reduce(128) { $0 + $1.body.count + 320 })
        writer.object { writer in
            writer.name("items")
            writer.array(events) { writer, event in
                writer.event(event, customer: event.customer.flatMap { customerIds[$0] })
            }
            writer.member("nextCursor", next.rawValue)
        }
        return writer.bytes
    }
}

extension JSONWriter {
    /// Writes an event: the members by which it is found, then those of its body.
    ///
    /// Of an event whose body is damaged, the body's members are left out: the followers of all other events go on, and
    /// `quittance check` reports it.
    ///
    /// - Parameter customer: The first id of the event's customer.
    mutating func event(_ event: LedgerEvent, customer: String?) {
        object { writer in
            // `GET /v1/events?after=…` with the cursor of the event returns the later events.
            writer.member("id", event.cursor?.rawValue)
            writer.member("customer", customer)
            writer.member("kind", event.kind.rawValue)
            writer.member("recordedAt", number: event.recordedAt.milliseconds)
            writer.member("bundleId", event.scope.bundleId)
            writer.member("environment", event.scope.environment.rawValue)
            writer.member("originalTransactionId", event.originalTransactionId)
            if event.hasWholeBody { writer.members(of: event.body) }
        }
    }
}

extension LedgerEvent {
    /// The members that stand in front of those of the body.
    private static let ownMembers: Set = [
        "id", "customer", "kind", "recordedAt", "bundleId", "environment", "originalTransactionId",
    ]

    /// Whether the body is a JSON object, none of whose members is one of ``ownMembers``. A page with another body
    /// could not be read, and a follower would not get past it.
    fileprivate var hasWholeBody: Bool {
        // Any error means that the body is damaged.
        guard case .object(let members)? = try? JSONValue(parsing: body) else { return false }
        return !members.contains { Self.ownMembers.contains($0.name) }
    }
}

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
            writer.members(of: event.body)
        }
    }
}

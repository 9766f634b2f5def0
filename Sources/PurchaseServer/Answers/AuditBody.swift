// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The JSON of a page of the audit list.
struct AuditListBody: Encodable, Sendable {
    /// The entries, the newest first.
    var items: [AuditBody]
    /// The cursor after which the next page begins; absent at the end.
    var nextCursor: String?
}

/// The JSON of an operation that changed something.
struct AuditBody: Encodable, Sendable {
    /// The id of the entry.
    var id: String
    /// The time of the operation, in milliseconds since 1970.
    var at: Timestamp
    /// The name of the API key; absent for a command.
    var keyName: String?
    /// The role of the API key; absent for a command.
    var role: String?
    /// The person's name in the request, which nobody checks; `quittance` for a command without one.
    var by: String?
    /// The name of the operation, such as `makeGrant`.
    var operation: String
    /// The first id of the customer concerned; absent without a customer, and after its erasure.
    var customerId: String?
    /// What the operation was about besides the customer, such as a transaction id.
    var subject: String?
    /// The reason in the request.
    var reason: String?
    /// The kinds of the events that tell the change, with commas between them; `changed` without events.
    var outcome: String

    init(_ entry: AuditEntry) {
        id = entry.id
        at = entry.at
        keyName = entry.content.keyName
        role = entry.content.role
        by = entry.content.by
        operation = entry.content.operation
        customerId = entry.customerId
        subject = entry.content.subject
        reason = entry.content.reason
        outcome = entry.content.events.isEmpty ? "changed" : entry.content.events.joined(separator: ", ")
    }
}

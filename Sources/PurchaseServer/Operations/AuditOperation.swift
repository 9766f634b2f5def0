// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import PurchaseLedger

/// Who changed what: the operations that changed something, except submissions.
package enum ListAudit: NamedOperation {
    /// The greatest number of entries on a page. The customer of each is looked up singly.
    private static let pageLimit = 200

    private static let customer = Field(
        "customerId", in: .query, "only entries about the customer with this id", .text(.customerID),
        option: "customer", standard: "all customers")
    private static let from = Field(
        "from", in: .query, "the start of the time", .time, isPast: true, standard: "the oldest entry")
    private static let to = Field(
        "to", in: .query, "the end of the time, exclusive", .time, isPast: true, standard: "now")
    private static let after = Field(
        "after", in: .query, "the `nextCursor` of the last page of entries", standard: "the newest entry")
    private static let limit = Field(
        "limit", in: .query, "the most entries on the page", .number(1...Int64(pageLimit)), standard: "100")

    package static let operation = Operation(
        .get, "/v1/audit", "returns a page of what was changed by whom, the newest first", command: "audit",
        notes: """
            Lists what keys and commands changed, except submissions.

              quittance audit --customer anna --config quittance.json
              quittance audit --from 2027-01-01 --to 2027-02-01 --config quittance.json
            """,
        roles: .readers, [customer, from, to, after, limit], errors: [.invalidCursor],
        text: lines(
            "at", "operation", "customerId:", "subject", "outcome", "keyName:", "role:", "by:", "reason:")
    ) { request in
        let cursor = request[after]?.string
        guard cursor.map({ AuditEntry.time(of: $0) != nil }) ?? true else {
            throw Refusal(
                .invalidCursor, "“after” is no cursor of the audit list: send the nextCursor of the last page.")
        }
        let page = try await request.ledger.audit(
            of: request.scope.bundleId, about: request[customer]?.string, from: request.time(from),
            to: request.time(to), after: cursor, limit: request.number(limit))
        return try Answer(AuditListBody(items: page.items.map(AuditBody.init), nextCursor: page.next?.rawValue))
    }
}

extension AuthenticatedRequest {
    /// The request of an operation, whose changes are on the audit list.
    func noted(as operation: Operation) -> AuthenticatedRequest {
        guard operation.isAudited else { return self }
        let unique = server.auditIDs.next()
        // Read once: the name of the entry has it.
        let wall = wall
        return noted { AuditEntry($0, operation, wall: wall, unique: unique) }
    }
}

extension AuditEntry {
    /// The forms of the members that say what an operation is about.
    private static let subjects: [Field.Form] = [
        .text(.transactionID), .text(.orderID), .text(.grantID), .text(.catalogueName),
    ]

    /// What a request says of itself: no document, no other id of a customer, and no URL, which may have a secret.
    init(_ request: AuthenticatedRequest, _ operation: Operation, wall: Timestamp, unique: String) {
        self.init(operation.name, of: request.scope.bundleId, at: request.now, wall: wall, unique: unique)
        func text(_ isMeant: (Field) -> Bool) -> String? {
            let texts = operation.fields.filter(isMeant).compactMap { request[$0]?.string }
            return texts.isEmpty ? nil : texts.joined(separator: " ")
        }
        content.keyName = request.key?.name
        content.role = request.isOperator ? nil : request.role.rawValue
        content.by = text { $0.name == Field.by.name } ?? (request.isOperator ? Correction.operatorName : nil)
        content.reason = text(\.isReason)
        content.subject = text { $0.place == .path && $0 != .customer || Self.subjects.contains($0.form) }
        customerId = text { $0 == .customer }
    }
}

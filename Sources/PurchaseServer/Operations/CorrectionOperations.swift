// SPDX-License-Identifier: Apache-2.0

// Corrections of the ledger: the owners and the denial of a purchase, and the ids and merges of a customer. Each has a
// reason.

import AppStoreModel
import HTTPTypes
import PurchaseLedger

/// The purchase, its owners and its denial.
private let line: @Sendable (JSONValue) -> String = { answer in
    let owners = (answer["owners"]?.array ?? []).compactMap { $0["customer"]?.string }.joined(separator: ", ")
    let denied = answer["deniedAt"]?.integer.map { "denied since \(Timestamp(milliseconds: $0).iso8601)" }
    let id = answer["originalTransactionId"]?.string ?? ""
    return "\(id)  owners: \(owners.isEmpty ? "none" : owners)  \(denied ?? "not denied")"
}

package enum MovePurchase: NamedOperation {
    private static let owners = Field(
        "customers", "your app's own id of each new owner", .list(.customerID, atMost: Ledger.maxOwners),
        isRequired: true, option: "to")

    package static let operation = Operation(
        .post, "/v1/transactions/{id}/move", "makes customers the only owners of a purchase", command: "customer move",
        notes: """
            An unknown customer needs --new. Neither a document nor a claim changes the owners afterwards.

              quittance customer move 410000000000001 --to anna \\
                  --reason 'bought for a second account' --config quittance.json
            """,
        roles: .helpers, [.purchase, .environment, owners, .reason, .isNew.with(standard: "false")],
        // The ids of the owners, the reason and the name, with every character escaped.
        upTo: 32 << 10,
        unknown: "The purchase", errors: [.unknownCustomer], text: line
    ) { request in
        let ids = request[owners]?.array?.compactMap(\.string) ?? []
        try await request.requireKnown(ids, makesNew: false)
        let moved = try await request.ledger.move(
            request.purchase, to: ids, request.correction, at: request.now)
        return try Answer(moved.map { CorrectedPurchaseBody($0) })
    }
}

package enum DenyPurchase: NamedOperation {
    package static let operation = Operation(
        .post, "/v1/transactions/{id}/deny", "denies a purchase, which then grants nothing",
        command: "purchases deny",
        notes: """
            The effect is that of refusedPurchases in the configuration, without a restart of the server. Rebuilds, \
            erasures and copies keep the denial.

              quittance purchases deny 410000000000001 --reason 'chargeback' \\
                  --config quittance.json
            """,
        roles: .helpers, [.purchase, .environment, .reason], unknown: "The purchase", text: line
    ) { request in
        let denied = try await request.ledger.deny(request.purchase, request.correction, at: request.now)
        return try Answer(denied.map { CorrectedPurchaseBody($0) })
    }
}

package enum AllowPurchase: NamedOperation {
    package static let operation = Operation(
        .post, "/v1/transactions/{id}/allow", "ends the denial of a purchase", command: "purchases allow",
        notes: """
            A purchase in refusedPurchases of the configuration stays refused.

              quittance purchases allow 410000000000001 --reason 'the bank paid' \\
                  --config quittance.json
            """,
        roles: .helpers, [.purchase, .environment, .reason], unknown: "The purchase", text: line
    ) { request in
        let allowed = try await request.ledger.allow(request.purchase, request.correction, at: request.now)
        return try Answer(allowed.map { CorrectedPurchaseBody($0) })
    }
}

package enum UnlinkCustomer: NamedOperation {
    package static let operation = Operation(
        .post, "/v1/customers/{id}/unlink", "takes an added id off a customer", command: "customer unlink",
        notes: """
            The customer keeps its purchases. The first id cannot be taken off, because events name the customer by it.

              quittance customer unlink anna --alias an.old@example.com \\
                  --reason 'the address belongs to a stranger' --config quittance.json
            """,
        roles: .helpers, [.customer, .environmentOfChange, .alias, .reason], unknown: "The customer",
        errors: [.correctionRefused], text: CustomerBody.line
    ) { request -> Answer<CustomerBody>? in
        let outcome = try await request.ledger.removeAlias(
            request.text(.alias), from: request.customerId, in: request.scope, request.correction, at: request.now)
        switch outcome {
        case .removed: return Answer { try await request.customer() }
        case .unknownCustomer: return nil
        case .otherId:
            throw Refusal(.correctionRefused, "The customer does not have this alias: nothing was changed.")
        case .firstId:
            throw Refusal(
                .correctionRefused,
                """
                The id is the customer's first id, by which events name the customer. It cannot be taken off: move the \
                purchases to a different customer.
                """)
        }
    }
}

package enum UnmergeCustomer: NamedOperation {
    package static let operation = Operation(
        .post, "/v1/customers/{id}/unmerge", "undoes the merge of the customer that had the id",
        command: "customer unmerge",
        notes: """
            The merged customer exists again, with the ids and purchases that it brought along, except those that the \
            other customer has lost since. Grants, attributes, consents, and purchases since the merge stay with the \
            other customer. A merge with more than 500 purchases cannot be undone.

              quittance customer unmerge bert --reason 'not the same person' \\
                  --config quittance.json
            """,
        roles: .helpers, [.customer, .environmentOfChange, .reason], unknown: "The customer",
        errors: [.correctionRefused], text: CustomerBody.line
    ) { request -> Answer<CustomerBody>? in
        let outcome = try await request.ledger.undoMerge(
            of: request.customerId, in: request.scope, request.correction, at: request.now)
        switch outcome {
        case .undone: return Answer { try await request.customer() }
        case .unknownCustomer: return nil
        case .notMerged:
            throw Refusal(
                .correctionRefused,
                """
                No merge that the ledger knows brought this id to its customer: take off the id, and move the purchases.
                """)
        case .tooLarge:
            throw Refusal(
                .correctionRefused,
                "The merge brought too many purchases or ids to be undone: take off the ids, and move the purchases.")
        }
    }
}

extension AuthenticatedRequest {
    fileprivate var purchase: TransactionKey { TransactionKey(text(.purchase), in: scope) }

    fileprivate var correction: Correction {
        get throws(Refusal) {
            guard let correction = Correction(by: author, reason: text(.reason)) else {
                throw .invalid(TextForm.reason.rule)
            }
            return correction
        }
    }
}

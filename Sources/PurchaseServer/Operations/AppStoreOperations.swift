// SPDX-License-Identifier: Apache-2.0

// Requests to the App Store for a backend or an operator: lookups, and changes for customers.

import AppStoreAPI
import AppStoreModel
import HTTPTypes
import PurchaseLedger
import Reconciliation

extension Duration {
    /// The timeout of a request to the App Store: a third of the default `requestTimeout`, shorter than a client waits.
    package static let appStoreLimit = Duration.seconds(20)
}

package enum LookUpOrder: NamedOperation {
    private static let order = Field(
        "id", in: .path, "an order id, from the e-mail to a customer", .text(.orderID), option: "order-id")

    package static let operation = Operation(
        .get, "/v1/orders/{id}", "asks for the transactions of an order", command: "app-store order",
        notes: """
            Production only.

              quittance app-store order MV5G8XK2PQ --config quittance.json
            """,
        roles: .helpers, [order, .environment], unknown: "The order", errors: ErrorCode.ofAppStore
    ) { request -> Answer<FoundTransactionsBody>? in
        let reconciler = try request.reconciler()
        let found = try await reconciler.lookUpOrder(request.text(order), within: .appStoreLimit)
        guard let found else { return nil }
        return try await Answer(FoundTransactionsBody(found, in: reconciler))
    }
}

package enum ReadRefunds: NamedOperation {
    package static let operation = Operation(
        .get, "/v1/transactions/{id}/refunds", "asks for the refunded purchases of a customer",
        command: "app-store refunds",
        notes: "  quittance app-store refunds 410000000000001 --config quittance.json",
        roles: .helpers, [.transaction, .environment], errors: ErrorCode.ofAppStore
    ) { request in
        let reconciler = try request.reconciler()
        do {
            let found = try await reconciler.refunds(of: request.text(.transaction), within: .appStoreLimit)
            return try await Answer(FoundTransactionsBody(found, in: reconciler))
        } catch is UnfinishedRefunds {
            throw Refusal(
                .appStoreUnavailable,
                """
                The customer has more refunds than could be read in time. The refunds read in time are recorded. POST \
                /v1/backfill brings in all of them with the customer's whole history.
                """, isRetryable: false)
        }
    }
}

package enum SetAppAccountToken: NamedOperation {
    private static let account = Field(
        "appAccountToken", "the account: a UUID", .text(.uuid), isRequired: true, isArgument: true)

    package static let operation = Operation(
        .put, "/v1/transactions/{id}/app-account-token", "sets the account of a purchase",
        command: "app-store set-app-account-token",
        notes: "The purchase may have been made outside the app.",
        [.transaction, .environment, account], errors: ErrorCode.ofAppStore
    ) { request in
        let id = try await request.reconciler().setAppAccountToken(
            request.text(account), of: request.text(.transaction), within: .appStoreLimit)
        try await request.ledger.noteChange(of: TransactionKey(id, in: request.scope), at: request.now)
        return try Answer(AppAccountTokenBody(originalTransactionId: id, appAccountToken: request.text(account)))
    }
}

// MARK: - Extensions

private let days = Field("extendByDays", "the number of days", .number(1...90), isRequired: true, option: "days")
private let code = Field(
    "extendReasonCode", "0 undeclared, 1 customer satisfaction, 2 other, 3 service issue or outage", .number(0...3),
    isRequired: true, option: "reason")
package enum ExtendSubscription: NamedOperation {
    // Apple allows any text.
    private static let identifier = Field(
        "requestIdentifier", "a UUID, the same again only to repeat a request that failed", .text(.extensionID),
        isRequired: true, isMadeUp: true)

    package static let operation = Operation(
        .post, "/v1/subscriptions/{id}/extension", "extends the renewal date of a subscription",
        command: "app-store extend",
        notes: """
            The extension cannot be undone.

              quittance app-store extend 410000000000001 --days 7 --reason 3 \\
                  --config quittance.json
            """,
        roles: .helpers, [.transaction, .environment, days, code, identifier], errors: ErrorCode.ofAppStore
    ) { request in
        let asked = ExtendRenewalDateRequest(
            extendByDays: request.number(days), extendReasonCode: Open(rawValue: request.number(code)),
            requestIdentifier: request.text(identifier))
        let id = request.text(.transaction)
        let answer = try await request.reconciler().extend(asked, of: id, within: .appStoreLimit)
        try await request.ledger.noteChange(of: TransactionKey(id, in: request.scope), at: request.now)
        return try Answer(answer)
    }
}

package enum ExtendAll: NamedOperation {
    private static let identifier = Field(
        "requestIdentifier", "a UUID, the same again only to repeat a request that failed", .text(.uuid),
        isRequired: true, isMadeUp: true)
    private static let product = Field(
        "productId", "the product", .text(.catalogueName), isRequired: true, option: "product-id", isArgument: true)
    private static let storefronts = Field(
        "storefrontCountryCodes", "the country of each storefront, such as DEU", .list(.other, atMost: 1000),
        option: "storefront", standard: "all")

    package static let operation = Operation(
        .post, "/v1/extensions", "extends all active subscriptions of a product", command: "app-store extend-all",
        notes: """
            The command says how many active subscriptions of the product the ledger has, and asks. The App Store \
            takes hours or days; quittance app-store extension-status shows how far it is.

              quittance app-store extend-all com.example.notes.pro \\
                  --days 2 --reason 3 --config quittance.json
            """,
        [.environment, days, code, identifier, product, storefronts], errors: ErrorCode.ofAppStore,
        question: { try await question($0) }
    ) { request in
        var asked = MassExtendRenewalDateRequest(
            extendByDays: request.number(days), extendReasonCode: Open(rawValue: request.number(code)),
            requestIdentifier: request.text(identifier), productId: request.text(product))
        asked.storefrontCountryCodes = request[storefronts]?.array?.compactMap(\.string)
        let answer = try await request.reconciler().extendAll(asked, within: .appStoreLimit)
        try await request.ledger.noteChange(at: request.now)
        return try Answer(answer)
    }

    private static func question(_ request: AuthenticatedRequest) async throws -> String {
        let name = request.text(product)
        let count = try await request.ledger.activeSubscriptions(of: name, in: request.scope, at: request.now)
        let places = request[storefronts]?.array.map { " in \($0.compactMap(\.string).joined(separator: ", "))" } ?? ""
        let number = request.number(days)
        return """
            The ledger has \(count) active \(count == 1 ? "subscription" : "subscriptions") of \(name) in all \
            storefronts of \(request.scope.environment.rawValue). Extend all that the App Store has\(places) by \
            \(number) \(number == 1 ? "day" : "days")? It cannot be undone.
            """
    }
}

package enum GetExtension: NamedOperation {
    private static let product = Field(
        "productId", in: .path, "the product", .text(.catalogueName), option: "product-id")
    private static let request = Field(
        "requestIdentifier", in: .path, "the UUID of the extension", .text(.uuid), option: "request-identifier")

    package static let operation = Operation(
        .get, "/v1/extensions/{productId}/{requestIdentifier}", "says how far an extension of all subscriptions is",
        command: "app-store extension-status", roles: .helpers, [product, request, .environment],
        unknown: "The extension",
        errors: ErrorCode.ofAppStore
    ) { asked in
        try await Answer(
            asked.reconciler().extensionStatus(
                of: asked.text(product), requestIdentifier: asked.text(request), within: .appStoreLimit))
    }
}

// MARK: - A whole history

package enum BackfillCustomer: NamedOperation {
    private static let transaction = Field("transactionId", "any transaction id of the customer", .text(.transactionID))
    private static let order = Field("orderId", "an order id of the customer", .text(.orderID))
    private static let document = Field("document", "a document about the customer", .document)

    package static let operation = Operation(
        .post, "/v1/backfill", "brings the whole history of one customer from the App Store into the ledger",
        command: "app-store backfill",
        notes: "For many customers at once, see quittance backfill.",
        // One receipt of the largest size as base64, as for verifyReceipt.
        roles: .helpers, [.environment, transaction, order, document], upTo: Limits.verifyReceiptRequest, hint: hint,
        statuses: [.ok, .accepted], errors: ErrorCode.ofAppStore.union([.notFound])
    ) { request in
        let question = try question(request)
        do {
            // No request to the App Store begins in the second half of the time. If the history is not complete by
            // then, a job reads the rest.
            switch try await request.reconciler().takeHistory(question, within: .appStoreLimit) {
            case .complete(let report): return try Answer(BackfillBody(report))
            case .later(let job): return try Answer(BackfillBody(job), .accepted)
            }
        } catch let error as HistoryQuestionError {
            throw Refusal(.notFound, error.description)
        }
    }

    /// For a list of ids in place of a body.
    private static let hint: @Sendable ([UInt8]) -> String? = { body in
        guard body.first != UInt8(ascii: "{"), let form = HistoryQuestionError.form(of: body) else { return nil }
        return "\(form) Only quittance backfill takes a list."
    }

    @inline(never)
    private static func question(_ request: AuthenticatedRequest) throws -> HistoryQuestion {
        let given = [transaction, order, document].compactMap { field in
            request[field]?.string.map { (field: field, text: $0) }
        }
        guard given.count == 1, let (field, text) = given.first else {
            throw Refusal.invalid("Exactly one of “transactionId”, “orderId” and “document” is needed.")
        }
        switch field {
        case transaction: return try HistoryQuestion(transactionId: text)
        case order: return try HistoryQuestion(orderId: text)
        default: return try HistoryQuestion(document: text.utf8)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

// Questions that a person asks the App Store. The ledger records the answers only on request.

import AppStoreAPI
import AppStoreModel
import HTTPTypes
import PurchaseLedger
import Reconciliation

private let record = Field(
    "record", in: .query, "whether the ledger records the documents in the answer", .flag, standard: "false")

package enum AskTransaction: NamedOperation {
    package static let operation = Operation(
        .get, "/v1/transactions/{id}/app-store", "asks the App Store for the present state of a transaction",
        command: "app-store transaction",
        notes: "  quittance app-store transaction 410000000000001 --config quittance.json",
        roles: .helpers, [.transaction, .environment, record], errors: ErrorCode.ofAppStore
    ) { request in try await request.lookUp(.transaction(request.text(.transaction))) }
}

package enum AskStatuses: NamedOperation {
    package static let operation = Operation(
        .get, "/v1/transactions/{id}/statuses", "asks the App Store for all subscriptions of a customer",
        command: "app-store statuses", roles: .helpers, [.transaction, .environment, record],
        errors: ErrorCode.ofAppStore
    ) { request in try await request.lookUp(.statuses(request.text(.transaction))) }
}

package enum AskHistory: NamedOperation {
    package static let operation = Operation(
        .get, "/v1/transactions/{id}/history", "asks the App Store for all transactions of a customer",
        command: "app-store history", notes: "To record a whole history, see quittance app-store backfill.",
        roles: .helpers, [.transaction, .environment, record], errors: ErrorCode.ofAppStore
    ) { request in try await request.lookUp(.history(request.text(.transaction))) }
}

package enum AskAppTransaction: NamedOperation {
    package static let operation = Operation(
        .get, "/v1/transactions/{id}/app-transaction", "asks the App Store for a customer's purchase of the app",
        command: "app-store app-transaction", roles: .helpers, [.transaction, .environment],
        errors: ErrorCode.ofAppStore
    ) { request in try await request.lookUp(.appTransaction(request.text(.transaction))) }
}

package enum AskNotifications: NamedOperation {
    private static let since = Field(
        "since", in: .query, "the time of the first notification", .time, isPast: true, standard: "the last day")
    private static let failures = Field(
        "onlyFailures", in: .query, "whether to leave out notifications that a server accepted", .flag,
        standard: "false")
    private static let customer = Field(
        "transactionId", in: .query, "only notifications about the customer of this transaction",
        .text(.transactionID), standard: "all")

    package static let operation = Operation(
        .get, "/v1/notifications", "asks the App Store for its notifications, with its attempts to send them",
        command: "app-store notifications",
        notes: """
            The App Store shows 180 days, and 30 days of the sandbox.

              quittance app-store notifications --since 7d --only-failures \\
                  --config quittance.json
            """,
        roles: .helpers, [since, failures, customer, .environment, record], errors: ErrorCode.ofAppStore
    ) { request in
        let start = request[since]?.integer.map { Timestamp(milliseconds: $0) }
        var asked = NotificationHistoryRequest(
            startDate: start ?? request.now.advanced(by: .seconds(-86_400)), endDate: request.now)
        if request[failures] == .bool(true) { asked.onlyFailures = true }
        asked.transactionId = request[customer]?.string
        return try await request.lookUp(.notifications(asked))
    }
}

package enum RequestTestNotification: NamedOperation {
    package static let operation = Operation(
        .post, "/v1/notifications/test", "lets the App Store send a test notification", command: "app-store test",
        notes: "quittance doctor --loop also waits for the notification.", [.environment], changes: false,
        errors: ErrorCode.ofAppStore
    ) { request in
        try await Answer(TestNotificationBody(id: request.reconciler().requestTestNotification(within: .appStoreLimit)))
    }
}

package enum GetTestNotification: NamedOperation {
    private static let test = Field(
        "id", in: .path, "the id of a test notification", .text(.testNotificationID), option: "test")

    package static let operation = Operation(
        .get, "/v1/notifications/test/{id}", "asks the App Store whether a test notification arrived",
        command: "app-store test-result", roles: .helpers, [test, .environment, record],
        unknown: "The test notification, or its first attempt,", errors: ErrorCode.ofAppStore
    ) { request -> Answer<LookupBody>? in
        do {
            return try await request.lookUp(.testNotification(request.text(test)))
        } catch let error as AppStoreAPIError where error.errorCode == .testNotificationNotFound {
            return nil
        }
    }
}

extension AuthenticatedRequest {
    fileprivate func lookUp(_ question: Lookup.Question) async throws -> Answer<LookupBody> {
        let isRecorded = self[record] == .bool(true)
        return try await Answer(
            LookupBody(reconciler().lookUp(question, isRecorded: isRecorded, within: .appStoreLimit)))
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
package import AppStoreModel
import AppStoreTrust
package import PurchaseLedger

// Questions of a person to the App Store. The ledger records the documents in an answer only on request.

/// An answer of the App Store to a person.
package struct Lookup: Sendable {
    /// A question, with the id of a transaction or of a test notification.
    package enum Question: Sendable {
        case transaction(String)
        case statuses(String)
        case history(String)
        case appTransaction(String)
        case notifications(NotificationHistoryRequest)
        case testNotification(String)

        /// Whether the answer is a past history, so that its payments are no news.
        fileprivate var isBackfill: Bool {
            switch self {
            case .transaction, .history: true
            default: false
            }
        }
    }

    /// A transaction, a subscription, an app transaction or a notification in an answer.
    package struct Item: Sendable {
        /// The valid documents.
        package private(set) var documents: [Evidence] = []
        /// The documents that the ledger may record.
        fileprivate var recordable: [Evidence] = []
        /// Why the first invalid document was refused; `nil` if all are valid.
        package private(set) var refusal: String?
        /// Apple's status of a subscription, which is not signed.
        package private(set) var status: Open<SubscriptionStatus>?
        /// The attempts to send a notification; `nil` for anything else.
        package private(set) var attempts: [SendAttemptItem]?
    }

    package fileprivate(set) var items: [Item] = []
    /// Whether the App Store has no more items.
    package fileprivate(set) var isComplete = true
    /// `nil` if nothing was to be recorded.
    package fileprivate(set) var result: RecordResult?

    /// The items after which no further page is read: some 2 MB of an answer.
    fileprivate static let maxItems = 500
}

extension Reconciler {
    /// Asks a question.
    ///
    /// - Parameters:
    ///   - isRecorded: Whether the ledger records the valid documents.
    ///   - limit: The time limit of each request. After this time no further page is requested.
    /// - Throws: `AppStoreAPIError`, `LedgerStorageError`.
    package func lookUp(
        _ question: Lookup.Question, isRecorded: Bool = false, within limit: Duration
    ) async throws -> Lookup {
        var lookup = try await answer(to: question, within: limit)
        if isRecorded {
            lookup.result = try await ledger.record(
                lookup.items.flatMap(\.recordable), isBackfill: question.isBackfill, at: now())
        }
        return lookup
    }

    /// Asks the App Store for a notification of the type `TEST`.
    ///
    /// - Returns: Apple's id of the test, for ``Lookup/Question/testNotification(_:)``.
    /// - Throws: `AppStoreAPIError`.
    package func requestTestNotification(within limit: Duration) async throws -> String {
        let answer = try await client.send(.requestTestNotification, to: scope.environment, within: limit)
        return answer.testNotificationToken ?? ""
    }

    private func answer(to question: Lookup.Question, within limit: Duration) async throws -> Lookup {
        let environment = scope.environment
        switch question {
        case .transaction(let id):
            let answer = try await client.send(.transactionInfo(id), to: environment, within: limit)
            let found = await verifier.checked(answer, at: now())
            return Lookup(items: found.map { [Lookup.Item($0) { Evidence($0) }] } ?? [])
        case .appTransaction(let id):
            let answer = try await client.send(.appTransactionInfo(id), to: environment, within: limit)
            let found = await verifier.checked(answer, at: now())
            return Lookup(items: found.map { [Lookup.Item($0) { Evidence($0) }] } ?? [])
        case .statuses(let id):
            let answer = try await client.send(.subscriptionStatuses(id), to: environment, within: limit)
            return Lookup(items: await verifier.checked(answer, at: now()).map { Lookup.Item($0) })
        case .history(let id):
            return try await pages(.transactionHistory(id), within: limit) { page in
                await verifier.checked(page, at: now()).map { Lookup.Item($0) { Evidence($0) } }
            }
        case .notifications(let request):
            return try await pages(.notificationHistory(request), within: limit) { await items(of: $0) }
        case .testNotification(let id):
            let answer = try await client.send(.testNotificationStatus(id), to: environment, within: limit)
            var item = NotificationHistoryResponseItem()
            item.signedPayload = answer.signedPayload
            item.sendAttempts = answer.sendAttempts
            var page = NotificationHistoryResponse()
            page.notificationHistory = [item]
            return Lookup(items: await items(of: page))
        }
    }

    private func items(of page: NotificationHistoryResponse) async -> [Lookup.Item] {
        let notifications = (page.notificationHistory ?? []).filter { $0.signedPayload != nil }
        return zip(await verifier.checked(page, at: now()), notifications).map { document, notification in
            Lookup.Item(document, attempts: notification.sendAttempts ?? []) { Evidence($0) }
        }
    }

    private func pages<Page: APIPage>(
        _ first: Endpoint<Page>, within limit: Duration, _ items: (Page) async -> [Lookup.Item]
    ) async throws -> Lookup {
        let end = now().advanced(by: limit)
        var lookup = Lookup()
        for try await page in client.pages(first, in: scope.environment, within: limit) {
            lookup.items += await items(page)
            lookup.isComplete = page.hasMore != true
            if now() >= end || lookup.items.count >= Lookup.maxItems { break }
        }
        return lookup
    }
}

// Not inlined into their asynchronous callers, because this compiler's optimizer miscompiles the result.
extension Lookup.Item {
    @inline(never)
    fileprivate init<Value>(
        _ document: CheckedDocument<Value>, attempts: [SendAttemptItem]? = nil, _ evidence: (Value) -> Evidence?
    ) {
        self.attempts = attempts
        switch document.result {
        case .success(let value): documents = evidence(value).map { [$0] } ?? []
        case .failure(let error): refusal = "\(error)"
        }
        recordable = documents
    }

    @inline(never)
    fileprivate init(_ subscription: CheckedSubscription) {
        status = subscription.status
        do throws(VerificationError) {
            guard let transaction = try subscription.transaction?.result.get() else { return }
            documents = [Evidence(transaction)].compactMap(\.self)
            recordable = documents
            if let renewalInfo = try subscription.renewalInfo?.result.get() {
                documents += [Evidence(renewalInfo, boundBy: transaction)].compactMap(\.self)
            }
            recordable = try Reconciler.evidence(in: subscription)
        } catch {
            refusal = "\(error)"
        }
    }
}

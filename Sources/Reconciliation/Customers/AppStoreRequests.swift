// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
public import AppStoreModel
import AppStoreTrust
import PurchaseLedger

// Sends a backend's requests about its customers to the App Store. The signed documents in an answer are recorded,
// except by `transactionIds(ofOrder:within:)`. After a request that changes a purchase, the customer's history is read
// again.

/// The transactions in the App Store's answers, which are now in the ledger.
public struct FoundTransactions: Sendable {
    /// The numbers of recorded, known and refused documents.
    public let report: HistoryReport
    /// The ids of the valid transactions, in the order of the answers.
    public let transactionIds: [String]
}

extension Reconciler {
    /// Looks up and records the transactions of an order id from a customer's e-mail. Only production knows order ids.
    ///
    /// - Parameter limit: The time limit of the request with all its attempts.
    /// - Returns: `nil` if the App Store does not know the order id.
    /// - Throws: `VerificationError` if a document is refused now but may pass on a retry; `AppStoreAPIError`;
    ///   `LedgerStorageError`.
    public func lookUpOrder(_ orderId: String, within limit: Duration) async throws -> FoundTransactions? {
        let answer = try await client.send(.lookUpOrder(orderId), to: scope.environment, within: limit)
        guard answer.isValid else { return nil }
        var report = HistoryReport(in: scope.environment)
        let found = try await record(await verifier.checked(answer, at: now()), in: &report)
        return FoundTransactions(report: report, transactionIds: found.compactMap(\.transactionId))
    }

    /// Asks for the transactions of an order id, as ``lookUpOrder(_:within:)`` does, but records no document.
    ///
    /// - Returns: The ids of the valid transactions; `nil` if the App Store does not know the order id.
    /// - Throws: `AppStoreAPIError`.
    package func transactionIds(ofOrder orderId: String, within limit: Duration) async throws -> [String]? {
        let answer = try await client.send(.lookUpOrder(orderId), to: scope.environment, within: limit)
        guard answer.isValid else { return nil }
        return await verifier.checked(answer, at: now()).compactMap { document in
            guard case .success(let transaction) = document.result else { return nil }
            return transaction.payload.transactionId
        }
    }

    /// Reads and records all refunds of a transaction's customer.
    ///
    /// - Parameters:
    ///   - anyTransactionId: A transaction id, an original transaction id or an app transaction id.
    ///   - limit: The time limit of each request. After this time no further page is requested.
    /// - Throws: As ``lookUpOrder(_:within:)``, and ``UnfinishedRefunds`` if pages remain after the time limit.
    public func refunds(of anyTransactionId: String, within limit: Duration) async throws -> FoundTransactions {
        let end = now().advanced(by: limit)
        var report = HistoryReport(in: scope.environment)
        var ids: [String] = []
        for try await page in client.pages(.refundHistory(anyTransactionId), in: scope.environment, within: limit) {
            let found = try await record(await verifier.checked(page, at: now()), in: &report)
            ids += found.compactMap(\.transactionId)
            if page.hasMore == true, now() >= end { throw UnfinishedRefunds() }
        }
        return FoundTransactions(report: report, transactionIds: ids)
    }

    /// Extends the renewal date of a subscription. The customer gets an e-mail, and the extension cannot be undone.
    ///
    /// - Parameters:
    ///   - body: The request. Reuse its request identifier only to repeat the request.
    ///   - id: Any transaction id of the subscription that the ledger knows, or its original transaction id.
    ///   - limit: The time limit of each of the two steps: the extension, and the reading of the new state.
    /// - Throws: ``HistoryQuestionError`` if the id is not a number; `AppStoreAPIError`, `LedgerStorageError`.
    public func extend(
        _ body: ExtendRenewalDateRequest, of id: String, within limit: Duration
    ) async throws -> ExtendRenewalDateResponse {
        let question = try HistoryQuestion(transactionId: id)
        let answer = try await client.send(
            .extendRenewalDate(body, of: originalTransactionId(of: id)), to: scope.environment, within: limit)
        try await takeChange(question, within: limit)
        return answer
    }

    /// Extends the renewal dates of all active subscribers of a product. The App Store takes hours or days, and sends a
    /// notification about each subscriber.
    ///
    /// - Throws: `AppStoreAPIError`.
    public func extendAll(
        _ body: MassExtendRenewalDateRequest, within limit: Duration
    ) async throws -> MassExtendRenewalDateResponse {
        try await client.send(.extendRenewalDates(body), to: scope.environment, within: limit)
    }

    /// Asks for the progress of an extension that ``extendAll(_:within:)`` has requested.
    ///
    /// - Throws: `AppStoreAPIError`.
    public func extensionStatus(
        of productId: String, requestIdentifier: String, within limit: Duration
    ) async throws -> MassExtendRenewalDateStatusResponse {
        try await client.send(
            .extensionStatus(of: productId, requestIdentifier: requestIdentifier), to: scope.environment,
            within: limit)
    }

    /// Sets the `appAccountToken` of a purchase, for example after the customer redeemed an offer code outside the app.
    /// The App Store refuses the change for a purchase that a family member shares with the customer.
    ///
    /// - Parameters:
    ///   - token: A UUID.
    ///   - id: As with ``extend(_:of:within:)``.
    ///   - limit: As with ``extend(_:of:within:)``.
    /// - Returns: The original transaction id, by which the App Store was asked.
    /// - Throws: As ``extend(_:of:within:)``.
    @discardableResult
    public func setAppAccountToken(_ token: String, of id: String, within limit: Duration) async throws -> String {
        let question = try HistoryQuestion(transactionId: id)
        let originalTransactionId = try await originalTransactionId(of: id)
        let body = UpdateAppAccountTokenRequest(appAccountToken: token)
        try await client.send(
            .setAppAccountToken(body, of: originalTransactionId), to: scope.environment, within: limit)
        try await takeChange(question, within: limit)
        return originalTransactionId
    }

    /// The original transaction id of the purchase with a transaction. The App Store makes changes by this id alone. An
    /// id that the ledger does not know counts as one.
    private func originalTransactionId(of id: String) async throws -> String {
        try await ledger.chain(of: TransactionKey(id, in: scope))?.key.originalTransactionId ?? id
    }

    /// Reads the documents that the App Store signs after a change. The change was made, even if this reading fails.
    /// The App Store therefore knows the id: if it says otherwise, a job asks again.
    private func takeChange(_ question: HistoryQuestion, within limit: Duration) async throws {
        var question = question
        question.isAnswered = true
        do {
            _ = try await takeHistory(question, within: limit)
        } catch is AppStoreAPIError {
            // A later notification brings the new state.
        }
    }
}

/// The error if a customer's refunds could not all be read in time. The refunds read until then are recorded.
public struct UnfinishedRefunds: Error, CustomStringConvertible {
    /// A sentence.
    public var description: String { "The customer has more refunds than could be read in time." }
}

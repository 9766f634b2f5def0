// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
public import AppStoreModel
import AppStoreTrust
import PurchaseLedger

// What a backend has the App Store do or tell about its customers. What is signed in an answer is recorded; after a
// change the customer's history is read again.

/// The transactions in answers of the App Store, which the ledger has now.
public struct FoundTransactions: Sendable {
    /// What was recorded.
    public let report: HistoryReport
    /// The transactions that are valid, in the order of the answers.
    public let transactionIds: [String]
}

extension Reconciler {
    /// Looks up the transactions of an order id, as a customer's e-mail has it. Only production knows orders.
    ///
    /// - Parameter limit: The longest time of all requests.
    /// - Returns: `nil` if the App Store does not know the order id.
    /// - Throws: `AppStoreAPIError`, `LedgerStorageError`, or `VerificationError` if a document may be valid later.
    public func lookUpOrder(_ orderId: String, within limit: Duration) async throws -> FoundTransactions? {
        let answer = try await client.send(.lookUpOrder(orderId), to: scope.environment, within: limit)
        guard answer.isValid else { return nil }
        var report = HistoryReport(in: scope.environment)
        let found = try await record(await verifier.checked(answer, at: now()), in: &report)
        return FoundTransactions(report: report, transactionIds: found.compactMap(\.transactionId))
    }

    /// Asks for the transactions of an order id, as ``lookUpOrder(_:within:)`` does, and records nothing.
    ///
    /// - Returns: The ids of the transactions that are valid; `nil` if the App Store does not know the order id.
    /// - Throws: `AppStoreAPIError`.
    package func transactionIds(ofOrder orderId: String, within limit: Duration) async throws -> [String]? {
        let answer = try await client.send(.lookUpOrder(orderId), to: scope.environment, within: limit)
        guard answer.isValid else { return nil }
        return await verifier.checked(answer, at: now()).compactMap { document in
            guard case .success(let transaction) = document.result else { return nil }
            return transaction.payload.transactionId
        }
    }

    /// Reads all refunds that the customer of a transaction got.
    ///
    /// - Parameters:
    ///   - anyTransactionId: A transaction id, an original transaction id or an app transaction id.
    ///   - limit: The longest time of each request. Between two pages it ends the reading too.
    /// - Throws: As ``lookUpOrder(_:within:)``.
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

    /// Extends the renewal date of a subscription. The customer gets an e-mail, and nobody can undo it.
    ///
    /// - Parameters:
    ///   - body: Use its request identifier again only to repeat the request.
    ///   - originalTransactionId: The subscription.
    ///   - limit: The longest time of each of the two steps: the extension, and the reading of the new state.
    /// - Throws: `AppStoreAPIError`, `LedgerStorageError`.
    public func extend(
        _ body: ExtendRenewalDateRequest, of originalTransactionId: String, within limit: Duration
    ) async throws -> ExtendRenewalDateResponse {
        let question = try HistoryQuestion(transactionId: originalTransactionId)
        let answer = try await client.send(
            .extendRenewalDate(body, of: originalTransactionId), to: scope.environment, within: limit)
        try await takeChange(question, within: limit)
        return answer
    }

    /// Extends the renewal dates of all active subscribers of a product, in hours or days. A notification tells about
    /// each of them.
    ///
    /// - Throws: `AppStoreAPIError`.
    public func extendAll(
        _ body: MassExtendRenewalDateRequest, within limit: Duration
    ) async throws -> MassExtendRenewalDateResponse {
        try await client.send(.extendRenewalDates(body), to: scope.environment, within: limit)
    }

    /// How far an extension for all subscribers is.
    ///
    /// - Throws: `AppStoreAPIError`.
    public func extensionStatus(
        of productId: String, requestIdentifier: String, within limit: Duration
    ) async throws -> MassExtendRenewalDateStatusResponse {
        try await client.send(
            .extensionStatus(of: productId, requestIdentifier: requestIdentifier), to: scope.environment,
            within: limit)
    }

    /// Sets the `appAccountToken` of a purchase, such as of one that the customer made with an offer code outside the
    /// app. Not for family members.
    ///
    /// - Parameters:
    ///   - token: A UUID.
    ///   - originalTransactionId: The first transaction of the purchase.
    ///   - limit: As with ``extend(_:of:within:)``.
    /// - Throws: `AppStoreAPIError`, `LedgerStorageError`.
    public func setAppAccountToken(
        _ token: String, of originalTransactionId: String, within limit: Duration
    ) async throws {
        let question = try HistoryQuestion(transactionId: originalTransactionId)
        let body = UpdateAppAccountTokenRequest(appAccountToken: token)
        try await client.send(
            .setAppAccountToken(body, of: originalTransactionId), to: scope.environment, within: limit)
        try await takeChange(question, within: limit)
    }

    /// Reads what the App Store signs after a change. The change was made, whether or not this succeeds at once.
    private func takeChange(_ question: HistoryQuestion, within limit: Duration) async throws {
        do {
            _ = try await takeHistory(question, within: limit)
        } catch is AppStoreAPIError {
            // A notification will tell.
        }
    }
}

/// The refunds of a customer could not all be read in time. Those that were are recorded.
public struct UnfinishedRefunds: Error, CustomStringConvertible {
    /// A sentence.
    public var description: String { "The customer has more refunds than could be read in time." }
}

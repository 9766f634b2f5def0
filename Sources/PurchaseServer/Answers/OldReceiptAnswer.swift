// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedger

/// The verifyReceipt answer for an old transaction receipt, in the style of iOS 6: the receipt, the newest renewal in
/// the ledger, and 21006 if the subscription is over.
///
/// The signature of an old receipt does not cover the environment, so a sandbox receipt can pose as a production
/// receipt. Therefore the ledger decides: it must know the transaction from a document whose signature covers the
/// environment. Otherwise the server refuses the receipt.
struct OldReceiptAnswer: Sendable {
    let receipt: VerifiedTransactionReceipt
    let environment: Environment

    /// Whether the receipt is for an auto-renewable subscription. No other old receipts have an expiry date.
    var isSubscription: Bool { receipt.payload.expiresDate != nil }

    /// - Throws: ``VerifyReceiptStatus``: `sandboxReceipt` or `productionReceipt` if the ledger knows the transaction
    ///   in the other environment only; `accountNotFound` if the ledger does not know the transaction, or the operator
    ///   refuses the purchase. ``LedgerStorageError``.
    func response(from ledger: Ledger, at now: Timestamp) async throws -> VerifyTransactionReceiptResponse {
        guard let chain = try await chain(environment, ledger) else {
            let other: Environment = environment == .production ? .sandbox : .production
            guard try await chain(other, ledger) != nil else { throw VerifyReceiptStatus.accountNotFound }
            throw environment == .production ? VerifyReceiptStatus.sandboxReceipt : .productionReceipt
        }
        let catalogue = ledger.rules.catalogue(chain.key.scope)
        guard !catalogue.refuses(chain) else { throw VerifyReceiptStatus.accountNotFound }
        return response(chain, catalogue, at: now)
    }

    /// The approximate number of transaction statements that the ledger must load for the answer.
    func rows(in ledger: Ledger) async throws -> Int {
        guard let transactionId = receipt.payload.transactionId else { return 0 }
        let scopes = [Environment.production, .sandbox].map { LedgerScope(bundleId: receipt.bundleId, environment: $0) }
        let query = LedgerQuery(
            scopes.flatMap { scope in
                [.chain(ChainKey(transactionId, in: scope)), .transaction(TransactionKey(transactionId, in: scope))]
            })
        return try await ledger.statementCount(query)
    }

    private func chain(_ environment: Environment, _ ledger: Ledger) async throws -> Chain? {
        guard let transactionId = receipt.payload.transactionId else { return nil }
        let scope = LedgerScope(bundleId: receipt.bundleId, environment: environment)
        return try await ledger.chain(of: TransactionKey(transactionId, in: scope))
    }

    private func response(
        _ chain: Chain, _ catalogue: Catalogue, at now: Timestamp
    ) -> VerifyTransactionReceiptResponse {
        var response = VerifyTransactionReceiptResponse()
        response.receipt = receipt.payload
        response.status = Open(.valid)
        guard isSubscription, let state = chain.subscription(catalogue, at: now) else { return response }
        let latest = TransactionReceiptInfo(receipt.payload, renewedBy: state.governing)
        if state.isRunning(catalogue, at: now) {
            response.latestReceiptInfo = latest
            response.latestReceipt = Base64.encode(receipt.document)
        } else {
            response.status = Open(.expiredSubscription)
            response.latestExpiredReceiptInfo = latest
            response.expirationIntent = state.expirationIntent
            response.isInBillingRetryPeriod = state.isInBillingRetry
        }
        response.autoRenewStatus = state.willRenew.map { Open($0 ? .on : .off) }
        response.autoRenewProductId = state.renewal?.autoRenewProductId
        response.cancellationReason = state.governing.revocation?.reason
        return response
    }
}

extension SubscriptionState {
    /// Whether the customer has access: the subscription is active, or in billing grace, or it is stale (its period is
    /// over and the ledger knows neither a renewal nor the end) and the configured leeway after the expiry date is not
    /// over.
    fileprivate func isRunning(_ catalogue: Catalogue, at now: Timestamp) -> Bool {
        guard status == .stale else { return status == .active || status == .billingGrace }
        return governing.expiresDate.map { now < $0.advanced(by: catalogue.staleLeeway) } ?? false
    }
}

extension TransactionReceiptInfo {
    /// Creates a copy of a receipt's content with the values of the newest renewal.
    fileprivate init(_ receipt: TransactionReceiptInfo, renewedBy statement: TransactionStatement) {
        self = receipt
        transactionId = statement.transactionId
        originalTransactionId = statement.originalTransactionId
        productId = statement.productId
        purchaseDate = statement.purchaseDate
        expiresDate = statement.expiresDate
        cancellationDate = statement.revocation?.date
        webOrderLineItemId = statement.lineItem ?? webOrderLineItemId
        // `itemId` is the Apple ID of the receipt's product. The Apple ID of another product is unknown.
        if statement.productId != receipt.productId { itemId = nil }
    }
}

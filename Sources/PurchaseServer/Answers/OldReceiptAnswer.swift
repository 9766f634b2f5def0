// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedger

/// What verifyReceipt says about an old transaction receipt, in the words of iOS 6: the receipt, the newest renewal that the ledger
/// knows, and 21006 where the subscription is over.
///
/// Its environment is signed nowhere, so that a sandbox receipt can be made to look like one from production. So the ledger
/// decides: what it does not know, from documents that say where they are from, was never bought.
struct OldReceiptAnswer: Sendable {
    let receipt: VerifiedTransactionReceipt
    let environment: Environment

    /// - Returns: `nil` where the receipt names no transaction.
    private var transactionId: String? { receipt.payload.transactionId }

    /// Whether it is about an auto-renewable subscription: nothing else has an end in these receipts.
    var isSubscription: Bool { receipt.payload.expiresDate != nil }

    /// - Throws: ``VerifyReceiptStatus``: `sandboxReceipt` or `productionReceipt` if it is known in the other environment alone,
    ///   `accountNotFound` if it is not known. ``LedgerStorageError``.
    func response(from ledger: Ledger, at now: Timestamp) async throws -> VerifyTransactionReceiptResponse {
        guard let chain = try await chain(environment, ledger) else {
            let other: Environment = environment == .production ? .sandbox : .production
            guard try await chain(other, ledger) != nil else { throw VerifyReceiptStatus.accountNotFound }
            throw environment == .production ? VerifyReceiptStatus.sandboxReceipt : .productionReceipt
        }
        return response(chain, ledger.rules.catalogues[receipt.bundleId] ?? Catalogue(), at: now)
    }

    private func response(
        _ chain: Chain, _ catalogue: Catalogue, at now: Timestamp
    ) -> VerifyTransactionReceiptResponse {
        var response = VerifyTransactionReceiptResponse()
        response.receipt = receipt.payload
        response.status = Open(.valid)
        guard isSubscription, let state = chain.subscription(at: now) else { return response }
        let latest = TransactionReceiptInfo(receipt.payload, renewedBy: state.governing)
        if counts(state, catalogue, at: now) {
            response.latestReceiptInfo = latest
            response.latestReceipt = Base64.encode(receipt.document)
        } else {
            response.status = Open(.expiredSubscription)
            response.latestExpiredReceiptInfo = latest
            response.expirationIntent = state.expirationIntent
            response.isInBillingRetryPeriod = state.isInBillingRetry
        }
        response.autoRenewStatus = state.willRenew.map { Open($0 ? .on : .off) }
        response.autoRenewProductId = state.nextProductId
        response.cancellationReason = state.governing.revocation?.reason
        return response
    }

    private func chain(_ environment: Environment, _ ledger: Ledger) async throws -> Chain? {
        guard let transactionId else { return nil }
        let scope = LedgerScope(bundleId: receipt.bundleId, environment: environment)
        guard let known = try await ledger.transaction(TransactionKey(transactionId, in: scope)) else { return nil }
        return try await ledger.chain(ChainKey(known.originalTransactionId, in: scope))
    }

    private func counts(_ state: SubscriptionState, _ catalogue: Catalogue, at now: Timestamp) -> Bool {
        switch state.status {
        case .active, .billingGrace: true
        case .stale: (state.governing.expiresDate?.advanced(by: catalogue.staleLeeway)).map { now < $0 } ?? false
        case .expired, .billingRetry, .revoked, .upgraded: false
        }
    }
}

extension TransactionReceiptInfo {
    /// What a receipt of the newest renewal would say.
    fileprivate init(_ receipt: TransactionReceiptInfo, renewedBy statement: TransactionStatement) {
        self = receipt
        transactionId = statement.transactionId
        originalTransactionId = statement.originalTransactionId
        productId = statement.productId
        purchaseDate = statement.purchaseDate
        expiresDate = statement.expiresDate
        cancellationDate = statement.revocation?.date
        webOrderLineItemId = statement.webOrderLineItemId ?? webOrderLineItemId
        // Of another product its Apple ID is not known.
        if statement.productId != receipt.productId { itemId = nil }
    }
}

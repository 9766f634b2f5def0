// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Crypto
import ReceiptCoding

// The simulated verifyReceipt endpoint for old transaction receipts.

extension World {
    /// Answers a verifyReceipt request about an old transaction receipt, in the style of iOS 6.
    ///
    /// - Parameter document: The request's receipt.
    /// - Returns: `nil` if the document is not a transaction receipt.
    func verifyTransactionReceipt(
        _ document: [UInt8], in environment: Environment, password: String?, secret: String?, signer: WorldSigner
    ) -> VerifyTransactionReceiptResponse? {
        guard let receipt = TransactionReceipt(validating: document) else { return nil }
        var response = VerifyTransactionReceiptResponse()
        guard signer.hasSigned(receipt), let id = receipt.purchase["transaction-id"],
            let customer = customer(ofTransaction: id), let info = transactionReceipt(of: id)
        else {
            response.status = Open(.unauthenticReceipt)
            return response
        }
        guard customer.environment == environment else {
            response.status = Open(customer.environment == .production ? .productionReceipt : .sandboxReceipt)
            return response
        }
        guard info.expiresDate == nil || secret == nil || secret == password else {
            response.status = Open(.wrongSharedSecret)
            return response
        }
        response.receipt = info
        response.status = Open(.valid)
        if let chain = info.originalTransactionId.flatMap({ subscriptions[$0] }) { add(chain, to: &response, signer) }
        return response
    }

    /// Adds the newest transaction of the receipt's subscription. If the subscription gives no access, the status of
    /// the response is 21006.
    private func add(
        _ chain: SubscriptionChain, to response: inout VerifyTransactionReceiptResponse, _ signer: WorldSigner
    ) {
        let latest = chain.current.transactionId.flatMap { transactionReceipt(of: $0) }
        let renewal = chain.renewal.legacy().value
        switch chain.state {
        case .active, .grace:
            response.latestReceiptInfo = latest
            // If the newest receipt cannot be signed, the response leaves it out, because that is more useful than no
            // response.
            response.latestReceipt = latest.flatMap { try? signer.sign($0) }.map { Base64.encode($0) }
        case .retry, .expired, .revoked:
            response.status = Open(.expiredSubscription)
            response.latestExpiredReceiptInfo = latest
            response.expirationIntent = renewal.expirationIntent
            response.isInBillingRetryPeriod = renewal.isInBillingRetryPeriod
        }
        response.autoRenewStatus = renewal.autoRenewStatus
        response.autoRenewProductId = renewal.autoRenewProductId
        response.cancellationReason = chain.current.revocationReason
    }
}

extension WorldSigner {
    /// Whether this signer made a transaction receipt. Equal bytes always get the same RSA signature (with this
    /// padding), so the function signs the receipt again and compares the signatures.
    fileprivate func hasSigned(_ receipt: TransactionReceipt) -> Bool {
        // If parts are missing or the receipt cannot be signed again, it is not from this store.
        guard let parts = try? receipt.signatureParts(),
            let chain = authority.receipts.first(where: { $0.certificates.first?[...] == parts.certificate })
        else { return false }
        let signature = try? chain.key.rsa(Insecure.SHA1.hash(data: [parts.version] + receipt.purchaseInfo))
        return signature.map { $0[...] == parts.signature } ?? false
    }
}

// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import ReceiptCoding

// The simulated verifyReceipt endpoint for app receipts, without HTTP.

extension World {
    /// Answers a verifyReceipt request as Apple's endpoint of an environment does.
    ///
    /// - Parameters:
    ///   - body: The body of the request: JSON.
    ///   - password: The app's shared secret; `nil` to accept any secret.
    ///   - signer: The signer of this App Store. It signs the newest receipt, and recognises the receipts that it has
    ///     signed.
    /// - Returns: The response, with Apple's status code.
    public func verifyReceipt(
        _ body: [UInt8], in environment: Environment, password: String? = nil, signer: WorldSigner
    ) -> VerifyReceiptResponse {
        let request: VerifyReceiptRequest
        do { request = try VerifyReceiptRequest(parsing: body) } catch { return VerifyReceiptResponse(status: error) }
        guard let document = request.receipt, SignedReceipt(validating: document) != nil else {
            return VerifyReceiptResponse(status: .malformedReceipt)
        }
        // A receipt that cannot be decoded is not from this store.
        guard let payload = signer.payload(ofOwnReceipt: document), let receipt = try? AppReceipt(decoding: payload),
            let customer = customer(of: receipt)
        else { return VerifyReceiptResponse(status: .unauthenticReceipt) }
        guard customer.environment == environment else {
            return VerifyReceiptResponse(
                status: customer.environment == .production ? .productionReceipt : .sandboxReceipt)
        }
        var response = VerifyReceiptResponse(
            status: .valid, environment: environment, receipt: Receipt(receipt, requestDate: now))
        guard receipt.inAppPurchases.contains(where: { $0.expiresDate != nil }) else { return response }
        guard password == nil || request.password == password else {
            return VerifyReceiptResponse(status: .wrongSharedSecret)
        }
        response.latestReceiptInfo = rows(of: customer.name, latestOnly: request.excludeOldTransactions == true)
        response.pendingRenewalInfo = pendingRenewals(of: customer.name)
        response.latestReceipt = latestReceipt(of: customer.name, signer).map { Base64.encode($0) }
        return response
    }

    /// The customer's transactions in verifyReceipt's form, newest first.
    ///
    /// - Parameter latestOnly: Whether to leave out the older transactions of each subscription.
    func rows(of name: String, latestOnly: Bool) -> [LatestReceiptInfo] {
        let newest = Set(subscriptions(of: name).compactMap { subscriptions[$0]?.current.transactionId })
        let shown = receiptTransactions(of: name).filter { transaction in
            !latestOnly || transaction.expiresDate == nil || newest.contains(transaction.transactionId ?? "")
        }
        return shown.sorted { $0.newestFirst < $1.newestFirst }.map { $0.inWholeSeconds.legacy().value }
    }

    /// The renewal info of the customer's subscriptions in verifyReceipt's form.
    func pendingRenewals(of name: String) -> [PendingRenewalInfo] {
        subscriptions(of: name).compactMap { id in
            guard var renewal = subscriptions[id]?.renewal else { return nil }
            renewal.gracePeriodExpiresDate = renewal.gracePeriodExpiresDate?.inWholeSeconds
            return renewal.legacy().value
        }
    }

    /// The customer's present receipt, signed.
    func latestReceipt(of name: String, _ signer: WorldSigner) -> [UInt8]? {
        // If the receipt cannot be signed, the response leaves it out, because that is more useful than no response.
        receipt(of: name).flatMap { try? signer.sign($0, at: now) }
    }

    /// The customer whose device has the receipt.
    private func customer(of receipt: AppReceipt) -> StoreCustomer? {
        for purchase in receipt.inAppPurchases {
            if let id = purchase.transactionId, let customer = customer(ofTransaction: id) { return customer }
        }
        return customers.values.first { self.receipt(of: $0.name)?.deviceHash == receipt.deviceHash }
    }
}

extension JWSTransactionDecodedPayload {
    /// A sort key by which newer purchases come before older purchases.
    fileprivate var newestFirst: (Int64, String) { (-(purchaseDate?.milliseconds ?? 0), transactionId ?? "") }

    /// The transaction with whole seconds in its dates, as in verifyReceipt and receipts.
    fileprivate var inWholeSeconds: Self {
        var transaction = self
        transaction.purchaseDate = purchaseDate?.inWholeSeconds
        transaction.originalPurchaseDate = originalPurchaseDate?.inWholeSeconds
        transaction.expiresDate = expiresDate?.inWholeSeconds
        transaction.revocationDate = revocationDate?.inWholeSeconds
        return transaction
    }
}

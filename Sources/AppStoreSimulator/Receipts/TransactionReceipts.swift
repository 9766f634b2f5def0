// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// Old transaction receipts (`SKPaymentTransaction.transactionReceipt`) of a simulated App Store, each for a single
// purchase.

extension World {
    /// The content of a purchase's old transaction receipt; `nil` if the id is unknown.
    ///
    /// The receipt does not show a refund. It also lacks the device's UDID, which older receipts contained.
    public func transactionReceipt(of transactionId: String) -> TransactionReceiptInfo? {
        guard let transaction = transaction(transactionId), let customer = customer(ofTransaction: transactionId) else {
            return nil
        }
        let isProduction = customer.environment == .production
        var info = TransactionReceiptInfo()
        info.bid = catalogue.bundleId
        info.bvrs = catalogue.appVersion
        info.itemId = transaction.productId.flatMap { catalogue.appleId(of: $0) }.map { "\($0)" }
        info.appItemId = isProduction ? "\(catalogue.appAppleId)" : nil
        info.versionExternalIdentifier = isProduction ? "\(catalogue.appAppleId &+ 1)" : "0"
        info.uniqueVendorIdentifier = customer.device.uppercased()
        info.productId = transaction.productId
        info.quantity = transaction.quantity.map { Int64($0) } ?? 1
        info.transactionId = transaction.transactionId
        info.originalTransactionId = transaction.originalTransactionId
        info.purchaseDate = transaction.purchaseDate
        info.originalPurchaseDate = transaction.originalPurchaseDate
        info.inAppOwnershipType = transaction.inAppOwnershipType
        if transaction.type == .autoRenewableSubscription { describe(transaction, in: &info) }
        return info
    }

    /// Sets the members about subscriptions. They have the same values as in verifyReceipt's responses about app
    /// receipts.
    private func describe(_ transaction: JWSTransactionDecodedPayload, in info: inout TransactionReceiptInfo) {
        let row = transaction.legacy().value
        info.expiresDate = row.expiresDate
        info.webOrderLineItemId = row.webOrderLineItemId
        info.isTrialPeriod = row.isTrialPeriod
        info.isInIntroOfferPeriod = row.isInIntroOfferPeriod
        info.subscriptionGroupIdentifier = row.subscriptionGroupIdentifier
    }
}

extension WorldSigner {
    /// A signed transaction receipt: the property list that StoreKit gave to apps. Apps sent it to verifyReceipt as
    /// base64.
    ///
    /// The receipt lacks the intermediate certificate, so a verifier needs a copy; see
    /// ``SimulatorRoots/receiptIntermediate``.
    ///
    /// - Parameter receipt: A receipt of a ``World``. Its purchase date decides the signer.
    public func sign(_ receipt: TransactionReceiptInfo) throws -> [UInt8] {
        let members = try JSONValue(parsing: receipt.json).members ?? []
        let entries = members.compactMap { member in
            member.value.string.map { (key: member.name.replacing("_", with: "-"), value: $0) }
        }
        let date = receipt.purchaseDate ?? Timestamp(milliseconds: 0)
        var plan = TransactionReceiptPlan(entries, by: authority.receipts(at: date))
        // Production receipts have no environment.
        if receipt.appItemId != nil { plan.otherEntries.removeAll { $0.0 == "environment" } }
        return try plan.signed()
    }
}

// SPDX-License-Identifier: Apache-2.0

// Makes the members of verifyReceipt answers from a decoded receipt.

public import AppStoreModel

extension Receipt {
    /// The receipt as verifyReceipt returns it, made from the receipt alone.
    ///
    /// - Parameter requestDate: The time of the answer; `nil` if there is no answer.
    public init(_ receipt: AppReceipt, requestDate: Timestamp?) {
        self.init(receipt)
        self.requestDate = requestDate
        // The App Store writes 0 for a missing identifier.
        adamId = adamId ?? 0
        appItemId = appItemId ?? 0
        downloadId = downloadId ?? 0
        versionExternalIdentifier = versionExternalIdentifier ?? 0
    }

    /// The members with the receipt's own values. Without the time of the answer, and without 0 for a missing
    /// identifier.
    init(_ receipt: AppReceipt) {
        self.init()
        receiptType = receipt.receiptType
        adamId = receipt.appItemId
        appItemId = receipt.appItemId
        bundleId = receipt.bundleId
        applicationVersion = receipt.applicationVersion
        downloadId = receipt.downloadId
        versionExternalIdentifier = receipt.versionExternalIdentifier
        receiptCreationDate = receipt.receiptCreationDate
        originalPurchaseDate = receipt.originalPurchaseDate
        originalApplicationVersion = receipt.originalApplicationVersion
        preorderDate = receipt.preorderDate
        expirationDate = receipt.expirationDate
        inApp = receipt.inAppPurchases.map(LatestReceiptInfo.init)
    }
}

extension LatestReceiptInfo {
    /// The purchase as verifyReceipt returns it, made from the receipt alone.
    public init(_ purchase: InAppPurchase) {
        self.init()
        quantity = purchase.quantity
        productId = purchase.productId
        transactionId = purchase.transactionId
        originalTransactionId = purchase.originalTransactionId
        purchaseDate = purchase.purchaseDate
        originalPurchaseDate = purchase.originalPurchaseDate
        expiresDate = purchase.expiresDate
        cancellationDate = purchase.cancellationDate
        webOrderLineItemId = purchase.webOrderLineItemId.map { String($0) }
        isTrialPeriod = purchase.isTrialPeriod
        isInIntroOfferPeriod = purchase.isInIntroOfferPeriod
        cancellationReason = purchase.cancellationReason
        promotionalOfferId = purchase.promotionalOfferId
    }
}

// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

extension Receipt {
    /// What verifyReceipt answers about a receipt, from the receipt alone.
    ///
    /// - Parameter requestDate: The instant of the answer, where it is one.
    public init(_ receipt: AppReceipt, requestDate: Timestamp?) {
        self.init(receipt)
        self.requestDate = requestDate
        // The App Store writes 0 for an identifier that there is not.
        adamId = adamId ?? 0
        appItemId = appItemId ?? 0
        downloadId = downloadId ?? 0
        versionExternalIdentifier = versionExternalIdentifier ?? 0
    }

    /// What the receipt says, and no more.
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
    /// What verifyReceipt answers about a purchase in a receipt, from the receipt alone.
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

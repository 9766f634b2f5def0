// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import ReceiptCoding

// Documents for tests that say member by member what the App Store signs. Such a test names the transaction "1", leaves
// a member out or contradicts an earlier document, as no world does. Times are in days: a month is bought on day 0, and
// has 30 days.

extension TestStore {
    package static let bundleId = "com.example"
    /// Day 0.
    package static let start = day(0)

    package static func day(_ days: Double) -> Timestamp {
        Timestamp(milliseconds: 1_700_000_000_000 + Int64(days * 86_400_000))
    }

    /// A purchase with the members that every test needs.
    ///
    /// - Parameter until: The end of a subscription's period.
    package static func transaction(
        _ id: String = "1", original: String? = nil, product: String = "month",
        type: ProductType = .autoRenewableSubscription, from: Double = 0, until: Double? = 30, signed: Double = 0,
        _ change: (inout JWSTransactionDecodedPayload) -> Void = { _ in }
    ) -> JWSTransactionDecodedPayload {
        var payload = JWSTransactionDecodedPayload()
        payload.transactionId = id
        payload.originalTransactionId = original ?? id
        payload.bundleId = bundleId
        payload.environment = Open(.production)
        payload.productId = product
        payload.type = Open(type)
        payload.purchaseDate = day(from)
        payload.expiresDate = until.map(day)
        payload.signedDate = day(signed)
        change(&payload)
        return payload
    }

    package static func renewal(
        original: String = "1", signed: Double = 0, renews: Bool = true, retry: Bool? = nil, grace: Double? = nil,
        _ change: (inout JWSRenewalInfoDecodedPayload) -> Void = { _ in }
    ) -> JWSRenewalInfoDecodedPayload {
        var payload = JWSRenewalInfoDecodedPayload()
        payload.originalTransactionId = original
        payload.environment = Open(.production)
        payload.autoRenewProductId = "month"
        payload.autoRenewStatus = Open(renews ? .on : .off)
        payload.isInBillingRetryPeriod = retry
        payload.gracePeriodExpiresDate = grace.map(day)
        payload.signedDate = day(signed)
        change(&payload)
        return payload
    }

    /// A notification with signed parts.
    package static func notification(
        _ type: String, subtype: String? = nil, signed: Double = 0, transaction: String? = nil, renewal: String? = nil,
        _ change: (inout ResponseBodyV2DecodedPayload) -> Void = { _ in }
    ) -> ResponseBodyV2DecodedPayload {
        var data = NotificationData()
        data.bundleId = bundleId
        data.environment = Open(.production)
        data.signedTransactionInfo = transaction
        data.signedRenewalInfo = renewal
        var payload = ResponseBodyV2DecodedPayload()
        payload.notificationType = Open(rawValue: type)
        payload.subtype = subtype.map { Open(rawValue: $0) }
        payload.notificationUUID = "u"
        payload.signedDate = day(signed)
        payload.data = data
        change(&payload)
        return payload
    }

    /// The body of the request with which the App Store sends a notification.
    package func body(_ notification: ResponseBodyV2DecodedPayload) throws -> String {
        #"{"signedPayload":"\#(try sign(notification))"}"#
    }

    /// A purchase as receipts state it.
    package static func purchase(
        _ id: String = "1", original: String? = nil, product: String = "month", type: ReceiptProductType? = nil,
        from: Double = 0, until: Double? = 30, cancelled: Double? = nil
    ) -> InAppPurchase {
        var purchase = InAppPurchase()
        (purchase.transactionId, purchase.originalTransactionId) = (id, original ?? id)
        (purchase.productId, purchase.productType, purchase.quantity) = (product, type.map { Open($0) }, 1)
        (purchase.purchaseDate, purchase.expiresDate) = (day(from), until.map(day))
        purchase.cancellationDate = cancelled.map(day)
        return purchase
    }

    /// An app transaction of the app's purchase on day `bought`.
    package static func appTransaction(
        _ id: String? = "700", version: String? = "41", bought: Double = -100, signed: Double = 0,
        in environment: Environment = .production, _ change: (inout AppTransaction) -> Void = { _ in }
    ) -> AppTransaction {
        var app = AppTransaction()
        app.receiptType = Open(environment)
        app.bundleId = bundleId
        app.receiptCreationDate = day(signed)
        app.originalPurchaseDate = day(bought)
        app.originalApplicationVersion = version
        app.originalPlatform = Open(.iOS)
        app.appTransactionId = id
        change(&app)
        return app
    }

    package static func receipt(_ purchases: [InAppPurchase] = [], created: Double = 0) -> AppReceipt {
        var receipt = AppReceipt()
        receipt.receiptType = Open(.production)
        receipt.bundleId = bundleId
        receipt.receiptCreationDate = day(created)
        receipt.inAppPurchases = purchases
        return receipt
    }
}

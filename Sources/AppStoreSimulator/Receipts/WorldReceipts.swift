// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Crypto
public import ReceiptCoding

// App receipts of a simulated App Store. They have the same attributes as the App Store's own receipts, in the same
// encoding.

extension World {
    /// The current receipt of the customer's device, before signing.
    ///
    /// The receipt has all subscriptions, non-consumables and non-renewing subscriptions, and the consumables that are
    /// neither finished nor refunded; see ``finish(_:)``. Equal worlds give equal bytes.
    ///
    /// - Returns: `nil` if the world has no such customer.
    public func receipt(of name: String) -> AppReceipt? {
        guard let customer = customers[name] else { return nil }
        let isProduction = customer.environment == .production
        var receipt = AppReceipt()
        receipt.receiptType = Open(isProduction ? .production : .productionSandbox)
        receipt.appItemId = isProduction ? catalogue.appAppleId : nil
        receipt.bundleId = catalogue.bundleId
        receipt.bundleIdBytes = DEREncoding.utf8String(catalogue.bundleId)[...]
        receipt.applicationVersion = catalogue.appVersion
        receipt.downloadDate = isProduction ? customer.downloadDate.inWholeSeconds : nil
        receipt.fulfillmentToolVersion = "P307"
        receipt.ageRating = "4+"
        receipt.developerId = isProduction ? catalogue.appAppleId &- 1 : nil
        receipt.receiptCreationDate = now.inWholeSeconds
        receipt.clientVersion = 180_602
        receipt.downloadId = isProduction ? Int64(customer.appTransactionId) : nil
        receipt.versionExternalIdentifier = isProduction ? catalogue.appAppleId &+ 1 : nil
        receipt.originalPurchaseDate = isProduction ? customer.downloadDate.inWholeSeconds : Self.sandboxDownload
        receipt.originalApplicationVersion = isProduction ? catalogue.appVersion : "1.0"
        receipt.platform = 3
        bind(&receipt, to: customer)
        receipt.inAppPurchases = receiptTransactions(of: name).map { InAppPurchase($0) }
        return receipt
    }

    /// The date of the app's purchase in sandbox receipts.
    private static let sandboxDownload = Timestamp(milliseconds: 1_375_340_400_000)

    /// The customer's transactions in a receipt, without finished and refunded consumables.
    func receiptTransactions(of name: String) -> [JWSTransactionDecodedPayload] {
        history(of: name).map(\.transaction).filter { transaction in
            transaction.type != .consumable
                || transaction.revocationDate == nil && !finished.contains(transaction.transactionId ?? "")
        }
    }

    /// The app finishes a transaction. A finished consumable is absent from later receipts.
    public mutating func finish(_ transactionId: String) throws(ImpossibleEvent) {
        guard transaction(transactionId) != nil else { throw .noTransaction(transactionId) }
        finished.insert(transactionId)
    }

    /// Sets the attributes that bind a receipt to a device, and the attributes whose meaning Apple has not published.
    private func bind(_ receipt: inout AppReceipt, to customer: StoreCustomer) {
        func bytes(_ purpose: String, _ count: Int) -> [UInt8] {
            let digests = (0..<4).flatMap {
                Array(SHA256.hash(data: Array("\(customer.device) \(purpose) \($0)".utf8)))
            }
            return Array(digests.prefix(count))
        }
        receipt.opaqueValue = bytes("opaque value", 16)[...]
        let device = stride(from: 0, to: 32, by: 2).compactMap { index in
            UInt8(String(customer.device.filter { $0 != "-" }.dropFirst(index).prefix(2)), radix: 16)
        }
        receipt.deviceHash =
            Array(Insecure.SHA1.hash(data: device + receipt.opaqueValue + receipt.bundleIdBytes))[...]
        receipt.otherAttributes = [
            ReceiptAttribute(type: 6, version: 1, value: bytes("attribute 6", 64)[...]),
            ReceiptAttribute(type: 7, version: 1, value: bytes("attribute 7", 72)[...]),
            ReceiptAttribute(type: 14, version: 1, value: DEREncoding.integer(378)[...]),
            ReceiptAttribute(type: 20, version: 1, value: DEREncoding.utf8String("")[...]),
        ]
        for (type, isAbsent) in [
            (1, receipt.appItemId == nil), (11, receipt.developerId == nil), (15, receipt.downloadId == nil),
            (16, receipt.versionExternalIdentifier == nil),
        ] as [(Int64, Bool)] where isAbsent {
            receipt.otherAttributes.append(
                ReceiptAttribute(type: type, version: 1, value: DEREncoding.integer(0)[...]))
        }
        if receipt.downloadDate == nil {
            receipt.otherAttributes.append(
                ReceiptAttribute(type: 8, version: 1, value: DEREncoding.ia5String("")[...]))
        }
    }
}

extension InAppPurchase {
    /// A transaction in the form of an app receipt.
    fileprivate init(_ transaction: JWSTransactionDecodedPayload) {
        self.init()
        quantity = Int64(transaction.quantity ?? 1)
        productId = transaction.productId
        transactionId = transaction.transactionId
        purchaseDate = transaction.purchaseDate?.inWholeSeconds
        originalTransactionId = transaction.originalTransactionId
        originalPurchaseDate = transaction.originalPurchaseDate?.inWholeSeconds
        productType = transaction.type?.known.map { Open(Self.types[$0] ?? .consumable) }
        expiresDate = transaction.expiresDate?.inWholeSeconds
        webOrderLineItemId = transaction.webOrderLineItemId.flatMap { Int64($0) }
        cancellationDate = transaction.revocationDate?.inWholeSeconds
        let isIntroductory = transaction.offerType == .introductory
        isTrialPeriod = transaction.offerDiscountType == .freeTrial && isIntroductory
        if transaction.type == .autoRenewableSubscription {
            isInIntroOfferPeriod = isIntroductory && transaction.offerDiscountType != .freeTrial
        }
        promotionalOfferId = transaction.offerType == .promotional ? transaction.offerIdentifier : nil
        otherAttributes = emptyAttributes
    }

    private static let types: [ProductType: ReceiptProductType] = [
        .nonConsumable: .nonConsumable, .consumable: .consumable, .nonRenewingSubscription: .nonRenewingSubscription,
        .autoRenewableSubscription: .autoRenewableSubscription,
    ]

    /// The attributes that the App Store's own receipts also have, with an empty value or 0: attributes that do not
    /// apply to the purchase, and attributes whose meaning is unknown.
    private var emptyAttributes: [ReceiptAttribute] {
        var empty = [1709, 1714, 1715, 1716, 1717, 1718].map { ($0 as Int64, DEREncoding.utf8String("")) }
        if expiresDate == nil { empty.append((1708, DEREncoding.ia5String(""))) }
        if cancellationDate == nil { empty.append((1712, DEREncoding.ia5String(""))) }
        if webOrderLineItemId == nil { empty.append((1711, DEREncoding.integer(0))) }
        empty += [(1710, DEREncoding.integer(0)), (1722, DEREncoding.integer(0))]
        return empty.map { ReceiptAttribute(type: $0.0, version: 1, value: $0.1[...]) }
    }
}

extension Timestamp {
    /// The time without its milliseconds, because receipts have whole seconds.
    var inWholeSeconds: Timestamp { Timestamp(milliseconds: milliseconds / 1000 * 1000) }
}

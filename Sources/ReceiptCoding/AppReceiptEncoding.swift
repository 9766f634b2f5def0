// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// The other direction of `AppReceipt.init(decoding:)`, for those who play the App Store: what was decoded from a receipt of
// the App Store comes out the same, to the byte.

extension AppReceipt {
    /// The receipt's payload in DER.
    package var encoded: [UInt8] {
        DEREncoding.setOf(attributes.map(\.encoded))
    }

    /// All attributes, in the order of their types.
    private var attributes: [ReceiptAttribute] {
        var list = AttributeList()
        list.text(0, receiptType?.rawValue)
        list.number(1, appItemId)
        list.octets(2, bundleIdOctets.isEmpty ? bundleId.map { DEREncoding.utf8String($0)[...] } ?? [] : bundleIdOctets)
        list.text(3, applicationVersion)
        list.octets(4, opaqueValue, version: 2)
        list.octets(5, deviceHash)
        list.date(8, downloadDate)
        list.number(9, fulfillmentToolVersion?.utf8.reduce(0) { $0 << 8 | Int64($1) })
        list.ascii(10, ageRating)
        list.number(11, developerId)
        list.date(12, receiptCreationDate)
        list.number(13, clientVersion)
        list.number(15, downloadId)
        list.number(16, versionExternalIdentifier)
        for purchase in inAppPurchases { list.octets(17, purchase.encoded[...]) }
        list.date(18, originalPurchaseDate)
        list.text(19, originalApplicationVersion)
        list.date(21, expirationDate)
        list.text(23, organizationDisplayName)
        list.number(25, platform)
        list.date(32, preorderDate)
        return list.attributes + otherAttributes
    }
}

extension InAppPurchase {
    fileprivate var encoded: [UInt8] {
        DEREncoding.setOf(attributes.map(\.encoded))
    }

    private var attributes: [ReceiptAttribute] {
        var list = AttributeList()
        list.number(1701, quantity)
        list.text(1702, productId)
        list.text(1703, transactionId)
        list.date(1704, purchaseDate)
        list.text(1705, originalTransactionId)
        list.date(1706, originalPurchaseDate)
        list.number(1707, productType?.rawValue)
        list.date(1708, expiresDate)
        list.number(1710, productItemId)
        list.number(1711, webOrderLineItemId)
        list.date(1712, cancellationDate)
        list.number(1713, isTrialPeriod.map { $0 ? 1 : 0 })
        list.number(1719, isInIntroOfferPeriod.map { $0 ? 1 : 0 })
        list.number(1720, cancellationReason.map { Int64($0.rawValue) })
        list.text(1721, promotionalOfferId)
        return list.attributes + otherAttributes
    }
}

extension ReceiptAttribute {
    package var encoded: [UInt8] {
        DEREncoding.sequence(
            DEREncoding.integer(type), DEREncoding.integer(version), DEREncoding.octetString(value))
    }
}

/// Attributes in the making; what is `nil` or empty is left out.
private struct AttributeList {
    private(set) var attributes: [ReceiptAttribute] = []

    mutating func octets(_ type: Int64, _ value: ArraySlice<UInt8>, version: Int64 = 1) {
        guard !value.isEmpty else { return }
        attributes.append(ReceiptAttribute(type: type, version: version, value: value))
    }

    mutating func text(_ type: Int64, _ text: String?) {
        guard let text else { return }
        octets(type, DEREncoding.utf8String(text)[...])
    }

    /// The App Store writes dates, and the age rating, as IA5String.
    mutating func ascii(_ type: Int64, _ text: String?) {
        guard let text else { return }
        octets(type, DEREncoding.ia5String(text)[...])
    }

    mutating func date(_ type: Int64, _ date: Timestamp?) {
        ascii(type, date?.iso8601)
    }

    mutating func number(_ type: Int64, _ number: Int64?) {
        guard let number else { return }
        octets(type, DEREncoding.integer(number)[...])
    }
}

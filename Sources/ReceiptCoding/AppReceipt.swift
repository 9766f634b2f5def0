// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The content of an app receipt. A receipt is issued for one version of an app on one device, and contains the
/// purchases that the device's Apple account made in the app.
///
/// A receipt writes an absent text or date as an empty string and an absent identifier as 0. Both are `nil` here.
/// `otherAttributes` keeps every attribute that sets no property: attributes of unknown types, empty attributes,
/// repeated attributes, and attributes in an unexpected form that affect no decision.
public struct AppReceipt: Hashable, Sendable {
    /// The store that signed the receipt (type 0).
    public var receiptType: Open<ReceiptType>?
    /// The app's Apple ID (type 1). None in sandbox.
    public var appItemId: Int64?
    /// The bundle id of the app (type 2).
    public var bundleId: String?
    /// The bundle id as encoded in the receipt, with tag and length: the bytes covered by ``deviceHash``.
    public var bundleIdBytes: ArraySlice<UInt8> = []
    /// `CFBundleVersion` on iOS, `CFBundleShortVersionString` on macOS (type 3).
    public var applicationVersion: String?
    /// Bytes covered by ``deviceHash`` (type 4).
    public var opaqueValue: ArraySlice<UInt8> = []
    /// The device hash, by which an app checks that the receipt was issued to the device: SHA-1 of device id, opaque
    /// value and bundle id (type 5).
    public var deviceHash: ArraySlice<UInt8> = []
    /// Probably when the app was installed or updated (type 8). None in sandbox.
    public var downloadDate: Timestamp?
    /// Four characters that increase over time, such as `P302` (type 9). Apple does not document their meaning.
    public var fulfillmentToolVersion: String?
    /// The app's age rating, such as `4+` (type 10).
    public var ageRating: String?
    /// Apple's identifier of the developer (type 11). None in sandbox.
    public var developerId: Int64?
    /// When the receipt was signed (type 12). The certificates must be valid at this instant.
    public var receiptCreationDate: Timestamp?
    /// Probably the client's system version as major × 10000 + minor × 100 + patch (type 13).
    public var clientVersion: Int64?
    /// The identifier of the app's download: up to 18 digits (type 15). None in sandbox.
    public var downloadId: Int64?
    /// Apple's identifier of the app version (type 16). None in sandbox.
    public var versionExternalIdentifier: Int64?
    /// The purchases in the receipt's order (type 17). The order is not chronological.
    public var inAppPurchases: [InAppPurchase] = []
    /// When the app itself was bought (type 18). In sandbox always 2013-08-01T07:00:00Z.
    public var originalPurchaseDate: Timestamp?
    /// The version of the app as originally bought (type 19). In sandbox always `1.0`.
    public var originalApplicationVersion: String?
    /// When a receipt from the Volume Purchase Program expires (type 21). Xcode's date in the year 4001 counts as none.
    public var expirationDate: Timestamp?
    /// The organization of a Volume Purchase Program receipt (type 23).
    public var organizationDisplayName: String?
    /// Probably the platform's code: 3 on iOS, 2 on macOS (type 25).
    public var platform: Int64?
    /// When the app was ordered before its release (type 32).
    public var preorderDate: Timestamp?
    /// All other attributes, in the receipt's order.
    public var otherAttributes: [ReceiptAttribute] = []

    public init() {}
}

/// A purchase in an app receipt (type 17).
public struct InAppPurchase: Hashable, Sendable {
    /// The number of items bought, 1 to 10 (type 1701).
    public var quantity: Int64?
    /// The product id, as in App Store Connect (type 1702).
    public var productId: String?
    /// The identifier of this purchase, renewal or restore (type 1703).
    public var transactionId: String?
    /// When the product was bought; for a renewal, the start of the period (type 1704).
    public var purchaseDate: Timestamp?
    /// The `transactionId` of the first purchase, the same for all its renewals and restores (type 1705). Xcode omits
    /// this attribute.
    public var originalTransactionId: String?
    /// The `purchaseDate` of the first purchase (type 1706). Xcode omits this attribute.
    public var originalPurchaseDate: Timestamp?
    /// The kind of product (type 1707). Xcode omits this attribute.
    public var productType: Open<ReceiptProductType>?
    /// The end of the paid period (type 1708). Subscriptions only.
    public var expiresDate: Timestamp?
    /// Probably the product's own Apple ID (type 1710). None in sandbox.
    public var productItemId: Int64?
    /// The identifier of a subscription's purchase event, the same on all devices (type 1711). Subscriptions only.
    public var webOrderLineItemId: Int64?
    /// When the purchase was refunded, or upgraded (type 1712).
    public var cancellationDate: Timestamp?
    /// Whether the period is a free trial (type 1713).
    public var isTrialPeriod: Bool?
    /// Whether the period is an introductory offer (type 1719). Auto-renewable subscriptions since 2017.
    public var isInIntroOfferPeriod: Bool?
    /// The reason for the refund (type 1720). One library documents this attribute, but no receipt seen so far has it.
    public var cancellationReason: Open<RevocationReason>?
    /// The identifier of the redeemed promotional offer (type 1721).
    public var promotionalOfferId: String?
    /// All other attributes, in the receipt's order.
    public var otherAttributes: [ReceiptAttribute] = []

    public init() {}
}

/// The kind of product in a receipt (type 1707).
public enum ReceiptProductType: Int64, CaseIterable, Sendable {
    case nonConsumable = 0
    case consumable = 1
    case nonRenewingSubscription = 2
    case autoRenewableSubscription = 3
    /// A free subscription from Newsstand.
    case freeSubscription = 4
}

// MARK: - The attributes

extension AppReceipt: AttributeSet {
    static let types: ClosedRange<Int64> = 0...32

    // `Lenient` attributes affect no decision. Apple has not published their form, so an unexpected form must not make
    // a receipt invalid.
    mutating func visit<Visitor: AttributeVisitor>(_ visitor: Visitor) throws(Visitor.Failure) -> Bool {
        switch visitor.type {
        case 0: try visitor.value(&receiptType, WordForm<ReceiptType>.self)
        case 1: try visitor.value(&appItemId, Lenient<IdentifierForm>.self)
        case 2: try visitor.text(&bundleId, encoded: &bundleIdBytes)
        case 3: try visitor.value(&applicationVersion, Lenient<TextForm>.self)
        case 4: visitor.bytes(&opaqueValue, version: 2)
        case 5: visitor.bytes(&deviceHash, version: 1)
        case 8: try visitor.value(&downloadDate, Lenient<DateForm>.self)
        case 9: try visitor.value(&fulfillmentToolVersion, Lenient<CharactersForm>.self)
        case 10: try visitor.value(&ageRating, Lenient<ASCIIForm>.self)
        case 11: try visitor.value(&developerId, Lenient<IdentifierForm>.self)
        case 12: try visitor.value(&receiptCreationDate, DateForm.self)
        case 13: try visitor.value(&clientVersion, Lenient<IdentifierForm>.self)
        case 15: try visitor.value(&downloadId, Lenient<IdentifierForm>.self)
        case 16: try visitor.value(&versionExternalIdentifier, Lenient<IdentifierForm>.self)
        case 17: try visitor.sets(&inAppPurchases)
        case 18: try visitor.value(&originalPurchaseDate, Lenient<DateForm>.self)
        case 19: try visitor.value(&originalApplicationVersion, Lenient<TextForm>.self)
        case 21: try visitor.value(&expirationDate, Lenient<ExpirationForm>.self)
        case 23: try visitor.value(&organizationDisplayName, Lenient<TextForm>.self)
        case 25: try visitor.value(&platform, Lenient<IdentifierForm>.self)
        case 32: try visitor.value(&preorderDate, Lenient<DateForm>.self)
        default: false
        }
    }
}

extension InAppPurchase: AttributeSet {
    static let types: ClosedRange<Int64> = 1701...1721

    mutating func visit<Visitor: AttributeVisitor>(_ visitor: Visitor) throws(Visitor.Failure) -> Bool {
        switch visitor.type {
        case 1701: try visitor.value(&quantity, NumberForm.self)
        case 1702: try visitor.value(&productId, TextForm.self)
        case 1703: try visitor.value(&transactionId, TextForm.self)
        case 1704: try visitor.value(&purchaseDate, DateForm.self)
        case 1705: try visitor.value(&originalTransactionId, TextForm.self)
        case 1706: try visitor.value(&originalPurchaseDate, DateForm.self)
        case 1707: try visitor.value(&productType, NumberedWordForm<ReceiptProductType>.self)
        case 1708: try visitor.value(&expiresDate, DateForm.self)
        case 1710: try visitor.value(&productItemId, Lenient<IdentifierForm>.self)
        case 1711: try visitor.value(&webOrderLineItemId, IdentifierForm.self)
        case 1712: try visitor.value(&cancellationDate, DateForm.self)
        case 1713: try visitor.value(&isTrialPeriod, FlagForm.self)
        case 1719: try visitor.value(&isInIntroOfferPeriod, FlagForm.self)
        case 1720: try visitor.value(&cancellationReason, Lenient<ReasonForm>.self)
        case 1721: try visitor.value(&promotionalOfferId, Lenient<TextForm>.self)
        default: false
        }
    }
}

// MARK: - Decoding and encoding

extension AppReceipt {
    /// Decodes a receipt's payload: `SET OF ReceiptAttribute`.
    ///
    /// - Throws: ``ReceiptDecodingError`` if the bytes are no such set, or if an attribute needed for decisions has an
    ///   unexpected form.
    public init(decoding payload: ArraySlice<UInt8>) throws(ReceiptDecodingError) {
        try self.init(attributesOf: payload)
    }

    /// The receipt's payload in DER. A receipt decoded from the App Store's payload is encoded to the same bytes.
    package var encoded: [UInt8] { encodedSet }

    /// Reads only the creation date, which a verifier needs before it can trust the rest. `nil` if the date is missing
    /// or unreadable.
    package static func creationDate(in payload: ArraySlice<UInt8>) -> Timestamp? {
        do throws(ReceiptDecodingError) {
            var attributes = try BERReader.attributes(of: payload)
            while !attributes.isAtEnd {
                let attribute = try attributes.attribute(in: payload)
                // An empty date counts as missing here, as in decoding.
                if attribute.type == 12, let date = try attribute.date() { return date }
            }
        } catch {
            // An unreadable date counts as missing too.
        }
        return nil
    }
}

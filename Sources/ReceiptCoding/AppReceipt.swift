// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// What an app receipt says: one version of one app on one device of one Apple account, and its purchases.
///
/// Receipts write an absent text or date as an empty string and an absent identifier as 0; both are `nil` here.
/// Everything that no property carries, known to nobody or empty, is kept in `otherAttributes`.
public struct AppReceipt: Hashable, Sendable {
    /// Which store signed it (type 0).
    public var receiptType: Open<ReceiptType>?
    /// The app's Apple ID (type 1). None in sandbox.
    public var appItemId: Int64?
    /// The app (type 2).
    public var bundleId: String?
    /// Type 2 with tag and length: what the device hash covers.
    public var bundleIdOctets: ArraySlice<UInt8> = []
    /// `CFBundleVersion` on iOS, `CFBundleShortVersionString` on macOS (type 3).
    public var applicationVersion: String?
    /// Bytes that go into the device hash (type 4).
    public var opaqueValue: ArraySlice<UInt8> = []
    /// The device hash: SHA-1 of device id, opaque value and bundle id (type 5).
    public var deviceHash: ArraySlice<UInt8> = []
    /// When the app was installed or updated, by all that is known (type 8). None in sandbox.
    public var downloadDate: Timestamp?
    /// Four characters that rise with time, such as `P302` (type 9). Apple does not say what they mean.
    public var fulfillmentToolVersion: String?
    /// The app's age rating, such as `4+` (type 10).
    public var ageRating: String?
    /// The developer's number at Apple (type 11). None in sandbox.
    public var developerId: Int64?
    /// When the receipt was signed: the instant at which its certificates are judged (type 12).
    public var receiptCreationDate: Timestamp?
    /// The client's system version as major × 10000 + minor × 100 + patch, by all that is known (type 13).
    public var clientVersion: Int64?
    /// The download of the app: up to 18 digits (type 15). None in sandbox.
    public var downloadId: Int64?
    /// The app version's number at Apple (type 16). None in sandbox.
    public var versionExternalIdentifier: Int64?
    /// The purchases, in the order of the receipt, which is no order in time (type 17).
    public var inAppPurchases: [InAppPurchase] = []
    /// When the app itself was bought (type 18). In sandbox always 2013-08-01T07:00:00Z.
    public var originalPurchaseDate: Timestamp?
    /// The app's version at that time (type 19). In sandbox always `1.0`.
    public var originalApplicationVersion: String?
    /// When a receipt from the Volume Purchase Program ends (type 21). Xcode's date in the year 4001 counts as none.
    public var expirationDate: Timestamp?
    /// The organization of a Volume Purchase Program receipt (type 23).
    public var organizationDisplayName: String?
    /// A code of the platform, by all that is known: 3 on iOS, 2 on macOS (type 25).
    public var platform: Int64?
    /// When the app was ordered before its release (type 32).
    public var preorderDate: Timestamp?
    /// Everything else, in the order of the receipt.
    public var otherAttributes: [ReceiptAttribute] = []

    public init() {}
}

/// One purchase in an app receipt (type 17).
public struct InAppPurchase: Hashable, Sendable {
    /// How many were bought, 1 to 10 (type 1701).
    public var quantity: Int64?
    /// The product, as named in App Store Connect (type 1702).
    public var productId: String?
    /// This purchase, renewal or restore (type 1703).
    public var transactionId: String?
    /// When it was bought; of a renewal the start of the period (type 1704).
    public var purchaseDate: Timestamp?
    /// The first purchase of the chain (type 1705). Xcode leaves it out.
    public var originalTransactionId: String?
    /// When that was (type 1706). Xcode leaves it out.
    public var originalPurchaseDate: Timestamp?
    /// The kind of product (type 1707). Xcode leaves it out.
    public var productType: Open<ReceiptProductType>?
    /// The end of the paid period (type 1708). Subscriptions only.
    public var expiresDate: Timestamp?
    /// The product's own Apple ID, by all that is known (type 1710). None in sandbox.
    public var productItemId: Int64?
    /// One purchase event of a subscription, the same on all devices (type 1711). Subscriptions only.
    public var webOrderLineItemId: Int64?
    /// When it was refunded, or upgraded (type 1712).
    public var cancellationDate: Timestamp?
    /// Whether the period is a free trial (type 1713).
    public var isTrialPeriod: Bool?
    /// Whether the period is an introductory offer (type 1719). Auto-renewable subscriptions since 2017.
    public var isInIntroOfferPeriod: Bool?
    /// Why it was refunded (type 1720), told by one library and never seen.
    public var cancellationReason: Open<RevocationReason>?
    /// The promotional offer that was used (type 1721).
    public var promotionalOfferId: String?
    /// Everything else, in the order of the receipt.
    public var otherAttributes: [ReceiptAttribute] = []

    public init() {}
}

/// The kind of product in a receipt (type 1707).
public enum ReceiptProductType: Int64, CaseIterable, Sendable {
    case nonConsumable = 0
    case consumable = 1
    case nonRenewingSubscription = 2
    case autoRenewableSubscription = 3
    /// Newsstand.
    case freeSubscription = 4
}

// MARK: - Decoding

extension AppReceipt {
    /// Decodes a receipt's payload: `SET OF ReceiptAttribute`.
    ///
    /// - Throws: ``ReceiptDecodingError`` where the bytes are not that, or where the value of an attribute that has a
    ///   property here is of another form.
    public init(decoding payload: ArraySlice<UInt8>) throws(ReceiptDecodingError) {
        var attributes = try BERReader.attributes(of: payload)
        var count = 0
        while !attributes.isAtEnd {
            count += 1
            guard count <= Limits.attributes else {
                throw ReceiptDecodingError("More than \(Limits.attributes) attributes")
            }
            let attribute = try attributes.attribute(in: payload)
            if try !read(attribute) { otherAttributes.append(attribute) }
        }
    }

    /// The creation date alone, without a look at anything else: what a verifier needs before it trusts the rest.
    /// `nil` where there is none, or none that can be read.
    package static func creationDate(in payload: ArraySlice<UInt8>) -> Timestamp? {
        guard var attributes = try? BERReader.attributes(of: payload) else { return nil }
        while !attributes.isAtEnd, let attribute = try? attributes.attribute(in: payload) {
            guard attribute.type == 12 else { continue }
            // As in decoding, an empty one does not count.
            do {
                if let date = try attribute.date() { return date }
            } catch {
                return nil
            }
        }
        return nil
    }

    /// Takes over what a property carries. Returns false where there is none, or nothing to carry.
    ///
    /// Only what decides something must have the form that is known; of the others Apple never told the form, and a
    /// receipt is not bad because one of them has another.
    private mutating func read(_ attribute: ReceiptAttribute) throws(ReceiptDecodingError) -> Bool {
        switch attribute.type {
        case 0: return set(&receiptType, try attribute.text().map(Open.init(rawValue:)))
        case 1: return set(&appItemId, try? attribute.identifier())
        case 2:
            guard set(&bundleId, try attribute.text()) else { return false }
            bundleIdOctets = attribute.value
            return true
        case 3: return set(&applicationVersion, try? attribute.text())
        case 4: return set(&opaqueValue, attribute.value)
        case 5: return set(&deviceHash, attribute.value)
        case 8: return set(&downloadDate, try? attribute.date())
        case 9: return set(&fulfillmentToolVersion, try? attribute.characterCode())
        case 10: return set(&ageRating, try? attribute.text())
        case 11: return set(&developerId, try? attribute.identifier())
        case 12: return set(&receiptCreationDate, try attribute.date())
        case 13: return set(&clientVersion, try? attribute.identifier())
        case 15: return set(&downloadId, try? attribute.identifier())
        case 16: return set(&versionExternalIdentifier, try? attribute.identifier())
        case 17:
            inAppPurchases.append(try InAppPurchase(decoding: attribute.value))
            return true
        case 18: return set(&originalPurchaseDate, try? attribute.date())
        case 19: return set(&originalApplicationVersion, try? attribute.text())
        case 21:
            let date = try? attribute.date()
            return set(&expirationDate, date == .distantFutureOfXcode ? nil : date)
        case 23: return set(&organizationDisplayName, try? attribute.text())
        case 25: return set(&platform, try? attribute.identifier())
        case 32: return set(&preorderDate, try? attribute.date())
        default: return false
        }
    }
}

extension InAppPurchase {
    init(decoding value: ArraySlice<UInt8>) throws(ReceiptDecodingError) {
        var attributes = try BERReader.attributes(of: value)
        // A subscription's purchase has eight that are empty or known to nobody.
        otherAttributes.reserveCapacity(8)
        var count = 0
        while !attributes.isAtEnd {
            count += 1
            guard count <= Limits.attributes else {
                throw ReceiptDecodingError("More than \(Limits.attributes) attributes in a purchase")
            }
            let attribute = try attributes.attribute(in: value)
            if try !read(attribute) { otherAttributes.append(attribute) }
        }
    }

    private mutating func read(_ attribute: ReceiptAttribute) throws(ReceiptDecodingError) -> Bool {
        switch attribute.type {
        case 1701: return set(&quantity, try attribute.integer())
        case 1702: return set(&productId, try attribute.text())
        case 1703: return set(&transactionId, try attribute.text())
        case 1704: return set(&purchaseDate, try attribute.date())
        case 1705: return set(&originalTransactionId, try attribute.text())
        case 1706: return set(&originalPurchaseDate, try attribute.date())
        case 1707: return set(&productType, Open(rawValue: try attribute.integer()))
        case 1708: return set(&expiresDate, try attribute.date())
        case 1710: return set(&productItemId, try? attribute.identifier())
        case 1711: return set(&webOrderLineItemId, try attribute.identifier())
        case 1712: return set(&cancellationDate, try attribute.date())
        case 1713: return set(&isTrialPeriod, try attribute.bool())
        case 1719: return set(&isInIntroOfferPeriod, try attribute.bool())
        case 1720: return set(&cancellationReason, attribute.digits().map(Open.init(rawValue:)))
        case 1721: return set(&promotionalOfferId, try? attribute.text())
        default: return false
        }
    }
}

/// Sets a property that has no value yet. Returns false where the attribute brings none, or is there a second time, so
/// that the first one counts and the other is kept aside.
private func set<Value>(_ property: inout Value?, _ value: Value?) -> Bool {
    guard property == nil, let value else { return false }
    property = value
    return true
}

private func set(_ property: inout ArraySlice<UInt8>, _ value: ArraySlice<UInt8>) -> Bool {
    guard property.isEmpty, !value.isEmpty else { return false }
    property = value
    return true
}

extension BERReader {
    /// The attributes of a set. One octet string around it is let pass, since some writers of test receipts add one.
    fileprivate static func attributes(of payload: ArraySlice<UInt8>) throws(ReceiptDecodingError) -> BERReader {
        var outer = BERReader(payload)
        if outer.nextTag(in: payload) == BERTag.octetString { outer = BERReader(in: try outer.next(in: payload)) }
        return BERReader(in: try outer.next(BERTag.set, "set of receipt attributes", in: payload))
    }
}

extension ReceiptAttribute {
    fileprivate func bool() throws(ReceiptDecodingError) -> Bool {
        switch try integer() {
        case 0: return false
        case 1: return true
        default: throw error("is neither 0 nor 1")
        }
    }

    /// A number, or text of one; which of them it is, is not known.
    fileprivate func digits() -> Int? {
        if let number = try? integer() { return Int(exactly: number) }
        return (try? text()).flatMap { $0.flatMap { Int($0) } }
    }

    /// A number whose four bytes are ASCII characters.
    fileprivate func characterCode() throws(ReceiptDecodingError) -> String? {
        guard let number = try identifier(), let code = UInt32(exactly: number) else { return nil }
        let characters = [24, 16, 8, 0].map { UInt8(code >> UInt32($0) & 0xff) }
        guard characters.allSatisfy({ $0 >= 0x20 && $0 < 0x7f }) else { return nil }
        return String(decoding: characters, as: UTF8.self)
    }
}

extension Timestamp {
    /// 4001-01-01T00:00:00Z.
    fileprivate static let distantFutureOfXcode = Timestamp(milliseconds: 64_092_211_200_000)
}

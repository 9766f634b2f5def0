// SPDX-License-Identifier: Apache-2.0

/// A customer's download of the app, as signed by the App Store. A device receives it as Apple's `AppTransaction`. The
/// App Store Server API, since version 1.17, returns it as `JWSAppTransactionDecodedPayload`, without the members
/// marked “devices only”.
public struct AppTransaction: Codable, Hashable, Sendable {
    /// The environment. Always present.
    public var receiptType: Open<Environment>?
    /// The app's Apple ID. Always present, except from Xcode.
    public var appAppleId: Int64?
    /// The bundle id of the app. Always present.
    public var bundleId: String?
    /// The installed version: `CFBundleVersion`, on macOS `CFBundleShortVersionString`. Devices only.
    public var applicationVersion: String?
    /// Apple's identifier of the installed version. Devices only, but not from Xcode.
    public var versionExternalIdentifier: Int64?
    /// The time of the App Store's signature: the `signedDate` of other payloads. Always present.
    public var receiptCreationDate: Timestamp?
    /// The time of the app's purchase. Always present; from Xcode a date in the year 0.
    public var originalPurchaseDate: Timestamp?
    /// The purchased version. In sandbox always `1.0`. Always present.
    public var originalApplicationVersion: String?
    /// Base64 of a hash. The hash binds the payload to one device. Devices only.
    public var deviceVerification: String?
    /// The UUID used in `deviceVerification`. Devices only.
    public var deviceVerificationNonce: String?
    /// The time of the preorder. Only if the app was ordered before its release.
    public var preorderDate: Timestamp?
    /// The identifier of the download, a string of digits. It stays the same after refunds and reinstalls.
    public var appTransactionId: String?
    /// The platform of the app's first purchase.
    public var originalPlatform: Open<PurchasePlatform>?
    /// The kind of App Store: `CONSUMER`. Since version 1.22 of the App Store Server API, sandbox so far.
    public var storeType: String?
    /// The time of the device's request. Seen from Xcode only.
    public var requestDate: Timestamp?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

extension AppTransaction: SignedPayload {
    public static var signedKind: SignedKind { .appTransaction }
}

/// A platform for app purchases: Apple's `originalPlatform`.
public enum PurchasePlatform: String, CaseIterable, Sendable {
    case iOS
    case macOS
    case tvOS
    case visionOS
}

// SPDX-License-Identifier: Apache-2.0

/// The download of the app, as the App Store signs it: Apple's `AppTransaction` from a device, and its
/// `JWSAppTransactionDecodedPayload` from the App Store Server API (1.17), which has fewer members.
public struct AppTransaction: Codable, Hashable, Sendable {
    /// The environment. Always present.
    public var receiptType: Open<Environment>?
    /// The app's Apple ID. Always present, except from Xcode.
    public var appAppleId: Int64?
    /// The app. Always present.
    public var bundleId: String?
    /// The version that is installed: `CFBundleVersion`, on macOS `CFBundleShortVersionString`. Devices only.
    public var applicationVersion: String?
    /// Apple's identifier of that version. Devices only, but not from Xcode.
    public var versionExternalIdentifier: Int64?
    /// When the App Store signed this: the `signedDate` of other payloads. Always present.
    public var receiptCreationDate: Timestamp?
    /// When the app was bought. Always present; from Xcode a date in the year 0.
    public var originalPurchaseDate: Timestamp?
    /// The version that was bought. In sandbox always `1.0`. Always present.
    public var originalApplicationVersion: String?
    /// Base64 of a hash that binds the payload to one device. Devices only.
    public var deviceVerification: String?
    /// The UUID that went into `deviceVerification`. Devices only.
    public var deviceVerificationNonce: String?
    /// When the app was ordered. Only if it was ordered before its release.
    public var preorderDate: Timestamp?
    /// The download's identifier: a string of digits that survives refunds and reinstalls.
    public var appTransactionId: String?
    /// The platform on which the app was first bought.
    public var originalPlatform: Open<PurchasePlatform>?
    /// The kind of App Store (1.22, sandbox so far): `CONSUMER`.
    public var storeType: String?
    /// When the device requested this. Seen from Xcode only.
    public var requestDate: Timestamp?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

extension AppTransaction: SignedPayload {
    public static var signedKind: SignedKind { .appTransaction }
}

/// A platform on which apps are bought: Apple's `originalPlatform`.
public enum PurchasePlatform: String, CaseIterable, Sendable {
    case iOS
    case macOS
    case tvOS
    case visionOS
}

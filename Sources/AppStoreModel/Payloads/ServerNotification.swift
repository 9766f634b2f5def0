// SPDX-License-Identifier: Apache-2.0

/// The body of a version 2 server notification: Apple's `responseBodyV2`.
public struct ResponseBodyV2: Codable, Hashable, Sendable {
    /// A JWS whose payload is a ``ResponseBodyV2DecodedPayload``.
    public var signedPayload: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// The body with this JWS.
    public init(signedPayload: String) {
        self.signedPayload = signedPayload
    }
}

/// What happened, as the App Store signs it: Apple's `responseBodyV2DecodedPayload`.
///
/// The type decides which one of `data`, `summary`, `externalPurchaseToken`, `appData` and `unclaimInfo` is there.
public struct ResponseBodyV2DecodedPayload: Codable, Hashable, Sendable {
    /// What happened. Always present.
    public var notificationType: Open<NotificationTypeV2>?
    /// More about what happened. Some types only; an empty text means none.
    public var subtype: Open<NotificationSubtype>?
    /// The notification's UUID, the same whenever it is sent again. Always present.
    public var notificationUUID: String?
    /// `2.0`.
    public var version: String?
    /// When the App Store signed this. Always present.
    public var signedDate: Timestamp?
    /// The app and the signed purchase.
    public var data: NotificationData?
    /// The result of a mass extension of renewal dates: `RENEWAL_EXTENSION` with `SUMMARY`.
    public var summary: NotificationSummary?
    /// A token for purchases outside of the App Store: `EXTERNAL_PURCHASE_TOKEN`.
    public var externalPurchaseToken: ExternalPurchaseToken?
    /// The app and the signed app transaction: `RESCIND_CONSENT`.
    public var appData: NotificationAppData?
    /// The seats that were given up: `UNCLAIM_SEATS` (2.23, sandbox so far).
    public var unclaimInfo: UnclaimInfo?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

extension ResponseBodyV2DecodedPayload: SignedPayload {
    public static var signedKind: SignedKind { .notification }
}

/// The app and the signed purchase of a notification: Apple's `data`.
public struct NotificationData: Codable, Hashable, Sendable {
    /// The app's Apple ID. Not in sandbox, by Apple's page.
    public var appAppleId: Int64?
    /// The app.
    public var bundleId: String?
    /// The version of the app that is installed.
    public var bundleVersion: String?
    /// The environment.
    public var environment: Open<Environment>?
    /// A JWS whose payload is a ``JWSTransactionDecodedPayload``. Not for `TEST`.
    public var signedTransactionInfo: String?
    /// A JWS whose payload is a ``JWSRenewalInfoDecodedPayload``. Auto-renewable subscriptions only.
    public var signedRenewalInfo: String?
    /// The subscription's status when this was signed. Auto-renewable subscriptions only.
    public var status: Open<SubscriptionStatus>?
    /// Why the customer wants a refund: `CONSUMPTION_REQUEST` only.
    public var consumptionRequestReason: Open<ConsumptionRequestReason>?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The result of a mass extension of renewal dates: Apple's `summary`.
public struct NotificationSummary: Codable, Hashable, Sendable {
    /// The environment.
    public var environment: Open<Environment>?
    /// The app's Apple ID.
    public var appAppleId: Int64?
    /// The app.
    public var bundleId: String?
    /// The subscription whose renewal dates were extended.
    public var productId: String?
    /// The UUID of the request.
    public var requestIdentifier: String?
    /// The storefronts of the request, ISO 3166-1 alpha-3; absent for all.
    public var storefrontCountryCodes: [String]?
    /// The number of renewal dates that were extended.
    public var succeededCount: Int64?
    /// The number of renewal dates that could not be extended.
    public var failedCount: Int64?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// A token for purchases outside of the App Store: Apple's `externalPurchaseToken`.
public struct ExternalPurchaseToken: Codable, Hashable, Sendable {
    /// The token's identifier. It starts with `SANDBOX` in sandbox.
    public var externalPurchaseId: String?
    /// When the token was created.
    public var tokenCreationDate: Timestamp?
    /// The app's Apple ID.
    public var appAppleId: Int64?
    /// The app.
    public var bundleId: String?
    /// What the token is for, such as `ACQUISITION` or `SERVICES`. Newer tokens only.
    public var tokenType: String?
    /// When the token expires. Newer tokens only.
    public var tokenExpirationDate: Timestamp?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The app and the signed app transaction of a notification: Apple's `appData`.
public struct NotificationAppData: Codable, Hashable, Sendable {
    /// The app's Apple ID.
    public var appAppleId: Int64?
    /// The app.
    public var bundleId: String?
    /// The environment.
    public var environment: Open<Environment>?
    /// A JWS whose payload is an ``AppTransaction``.
    public var signedAppTransactionInfo: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// Seats that were given up: Apple's `unclaimInfo` (2.23, sandbox so far).
public struct UnclaimInfo: Codable, Hashable, Sendable {
    /// The seats' UUIDs.
    public var unclaimSeatIds: [String]?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// What happened: Apple's `notificationType` of version 2.
public enum NotificationTypeV2: String, CaseIterable, Sendable {
    case subscribed = "SUBSCRIBED"
    case didRenew = "DID_RENEW"
    case didFailToRenew = "DID_FAIL_TO_RENEW"
    case gracePeriodExpired = "GRACE_PERIOD_EXPIRED"
    case expired = "EXPIRED"
    case didChangeRenewalStatus = "DID_CHANGE_RENEWAL_STATUS"
    case didChangeRenewalPref = "DID_CHANGE_RENEWAL_PREF"
    case offerRedeemed = "OFFER_REDEEMED"
    case priceIncrease = "PRICE_INCREASE"
    case renewalExtended = "RENEWAL_EXTENDED"
    case renewalExtension = "RENEWAL_EXTENSION"
    case refund = "REFUND"
    case refundDeclined = "REFUND_DECLINED"
    case refundReversed = "REFUND_REVERSED"
    case revoke = "REVOKE"
    case consumptionRequest = "CONSUMPTION_REQUEST"
    case oneTimeCharge = "ONE_TIME_CHARGE"
    case externalPurchaseToken = "EXTERNAL_PURCHASE_TOKEN"
    case rescindConsent = "RESCIND_CONSENT"
    case metadataUpdate = "METADATA_UPDATE"
    case migration = "MIGRATION"
    /// `MIGRATION` as Apple's changelog spells it.
    case migrate = "MIGRATE"
    case priceChange = "PRICE_CHANGE"
    /// 2.23, sandbox so far.
    case unclaimSeats = "UNCLAIM_SEATS"
    case test = "TEST"
}

/// More about what happened: Apple's `subtype`.
public enum NotificationSubtype: String, CaseIterable, Sendable {
    case initialBuy = "INITIAL_BUY"
    case resubscribe = "RESUBSCRIBE"
    case billingRecovery = "BILLING_RECOVERY"
    case gracePeriod = "GRACE_PERIOD"
    case voluntary = "VOLUNTARY"
    case billingRetry = "BILLING_RETRY"
    case priceIncrease = "PRICE_INCREASE"
    case productNotForSale = "PRODUCT_NOT_FOR_SALE"
    case autoRenewEnabled = "AUTO_RENEW_ENABLED"
    case autoRenewDisabled = "AUTO_RENEW_DISABLED"
    case upgrade = "UPGRADE"
    case downgrade = "DOWNGRADE"
    case pending = "PENDING"
    case accepted = "ACCEPTED"
    case summary = "SUMMARY"
    case failure = "FAILURE"
    case unreported = "UNREPORTED"
    case created = "CREATED"
    case activeTokenReminder = "ACTIVE_TOKEN_REMINDER"
    /// 2.23, sandbox so far.
    case seats = "SEATS"
    /// 2.23, sandbox so far.
    case increaseQuantity = "INCREASE_QUANTITY"
    /// 2.23, sandbox so far.
    case decreaseQuantity = "DECREASE_QUANTITY"
}

/// The state of a subscription: Apple's `status`.
public enum SubscriptionStatus: Int, CaseIterable, Sendable {
    case active = 1
    case expired = 2
    /// The charge failed, and there is no grace period or it is over.
    case billingRetry = 3
    /// The charge failed, and access continues until the end of the grace period.
    case billingGracePeriod = 4
    /// Refunded, or lost through Family Sharing or a seat assignment.
    case revoked = 5
}

/// Why a customer wants a refund: Apple's `consumptionRequestReason`.
public enum ConsumptionRequestReason: String, CaseIterable, Sendable {
    case unintendedPurchase = "UNINTENDED_PURCHASE"
    case fulfillmentIssue = "FULFILLMENT_ISSUE"
    case unsatisfiedWithPurchase = "UNSATISFIED_WITH_PURCHASE"
    case legal = "LEGAL"
    case other = "OTHER"
}

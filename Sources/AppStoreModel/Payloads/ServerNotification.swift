// SPDX-License-Identifier: Apache-2.0

/// The body of a version 2 server notification: Apple's `responseBodyV2`.
public struct ResponseBodyV2: Codable, Hashable, Sendable {
    /// A JWS with a ``ResponseBodyV2DecodedPayload`` as its payload.
    public var signedPayload: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// The body with the given JWS.
    public init(signedPayload: String) {
        self.signedPayload = signedPayload
    }
}

/// An event, as signed by the App Store: Apple's `responseBodyV2DecodedPayload`.
///
/// The type decides which member is present: `data`, `summary`, `externalPurchaseToken`, `appData` or `unclaimInfo`.
/// The number 2.23 in this file is the version of Apple's “App Store Server Notifications” that introduced the type,
/// property or case.
public struct ResponseBodyV2DecodedPayload: Codable, Hashable, Sendable {
    /// The kind of event. Always present.
    public var notificationType: Open<NotificationTypeV2>?
    /// The details of the event. Some types have none; an empty string also means none.
    public var subtype: Open<NotificationSubtype>?
    /// The notification's UUID. Repeated deliveries have the same UUID. Always present.
    public var notificationUUID: String?
    /// `2.0`.
    public var version: String?
    /// The time of the App Store's signature. Always present.
    public var signedDate: Timestamp?
    /// The app and the signed purchase.
    public var data: NotificationData?
    /// The result of a mass extension of renewal dates: `RENEWAL_EXTENSION` with `SUMMARY`.
    public var summary: NotificationSummary?
    /// A token for purchases outside of the App Store: `EXTERNAL_PURCHASE_TOKEN`.
    public var externalPurchaseToken: ExternalPurchaseToken?
    /// The app and the signed app transaction: `RESCIND_CONSENT`.
    public var appData: NotificationAppData?
    /// The surrendered seats: `UNCLAIM_SEATS` (2.23, sandbox so far).
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
    /// The app's Apple ID. According to Apple's documentation, absent in sandbox.
    public var appAppleId: Int64?
    /// The bundle id of the app.
    public var bundleId: String?
    /// The installed version of the app.
    public var bundleVersion: String?
    /// The environment.
    public var environment: Open<Environment>?
    /// A JWS with a ``JWSTransactionDecodedPayload`` as its payload. Not for `TEST`.
    public var signedTransactionInfo: String?
    /// A JWS with a ``JWSRenewalInfoDecodedPayload`` as its payload. Auto-renewable subscriptions only.
    public var signedRenewalInfo: String?
    /// The subscription's status at the time of the signature. Auto-renewable subscriptions only.
    public var status: Open<SubscriptionStatus>?
    /// The customer's reason for requesting a refund: `CONSUMPTION_REQUEST` only.
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
    /// The bundle id of the app.
    public var bundleId: String?
    /// The product with the extended renewal dates.
    public var productId: String?
    /// The UUID of the request.
    public var requestIdentifier: String?
    /// The storefronts of the request, ISO 3166-1 alpha-3; absent for all storefronts.
    public var storefrontCountryCodes: [String]?
    /// The number of extended renewal dates.
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
    /// The time of the token's creation.
    public var tokenCreationDate: Timestamp?
    /// The app's Apple ID.
    public var appAppleId: Int64?
    /// The bundle id of the app.
    public var bundleId: String?
    /// The purpose of the token, such as `ACQUISITION` or `SERVICES`. Newer tokens only.
    public var tokenType: String?
    /// The time of the token's expiration. Newer tokens only.
    public var tokenExpirationDate: Timestamp?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The app and the signed app transaction of a notification: Apple's `appData`.
public struct NotificationAppData: Codable, Hashable, Sendable {
    /// The app's Apple ID.
    public var appAppleId: Int64?
    /// The bundle id of the app.
    public var bundleId: String?
    /// The environment.
    public var environment: Open<Environment>?
    /// A JWS with an ``AppTransaction`` as its payload.
    public var signedAppTransactionInfo: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// Surrendered seats: Apple's `unclaimInfo` (2.23, sandbox so far).
public struct UnclaimInfo: Codable, Hashable, Sendable {
    /// The seats' UUIDs.
    public var unclaimSeatIds: [String]?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The kind of event: Apple's `notificationType` of version 2.
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

/// The details of an event: Apple's `subtype`.
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
    /// The charge failed, and the subscription has no grace period or its grace period is over.
    case billingRetry = 3
    /// The charge failed, and access continues until the end of the grace period.
    case billingGracePeriod = 4
    /// The subscription was refunded, or the customer's access through Family Sharing or an assigned seat ended.
    case revoked = 5
}

/// The customer's reason for requesting a refund: Apple's `consumptionRequestReason`.
public enum ConsumptionRequestReason: String, CaseIterable, Sendable {
    case unintendedPurchase = "UNINTENDED_PURCHASE"
    case fulfillmentIssue = "FULFILLMENT_ISSUE"
    case unsatisfiedWithPurchase = "UNSATISFIED_WITH_PURCHASE"
    case legal = "LEGAL"
    case other = "OTHER"
}

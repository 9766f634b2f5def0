// SPDX-License-Identifier: Apache-2.0

/// What will happen to a subscription next, as the App Store signs it: Apple's `JWSRenewalInfoDecodedPayload`.
///
/// It names no app: match it with a verified transaction by `originalTransactionId` and `environment`. Every property
/// is optional, since Apple leaves out members that do not apply. The number in brackets is the App Store Server API
/// version that introduced the property.
public struct JWSRenewalInfoDecodedPayload: Codable, Hashable, Sendable {
    /// The subscription: the transaction id of its first purchase, a string of digits. Always present.
    public var originalTransactionId: String?
    /// The product of the current period. Always present.
    public var productId: String?
    /// The product of the next period: not `productId` if a downgrade or crossgrade is pending. Always present.
    public var autoRenewProductId: String?
    /// Whether the subscription renews at the end of the period. Always present.
    public var autoRenewStatus: Open<AutoRenewStatus>?
    /// Why the subscription expired. Absent until it does.
    public var expirationIntent: Open<ExpirationIntent>?
    /// Whether Apple retries the charge of a renewal that failed. Also true in the grace period.
    public var isInBillingRetryPeriod: Bool?
    /// The end of the billing grace period. Only if there is or was one.
    public var gracePeriodExpiresDate: Timestamp?
    /// The state of a price increase. Absent without one.
    public var priceIncreaseStatus: Open<PriceIncreaseStatus>?
    /// The kind of offer for the next period. Only with one.
    public var offerType: Open<OfferType>?
    /// The name of the offer for the next period. With every offer but introductory ones.
    public var offerIdentifier: String?
    /// When the App Store signed this. Of two payloads about one subscription, the later one counts. Always present.
    public var signedDate: Timestamp?
    /// Where the subscription was bought (1.2). Always present.
    public var environment: Open<Environment>?
    /// The start of the latest run of service without a gap of 60 days, in sandbox 10 minutes (1.5). Always present.
    public var recentSubscriptionStartDate: Timestamp?
    /// The end of the newest period, also if it is past (1.8). Always present.
    public var renewalDate: Timestamp?
    /// The price of the next period in milliunits of `currency`, after any offer (1.12).
    public var renewalPrice: Int64?
    /// ISO 4217 code of `renewalPrice` (1.12). Only with it.
    public var currency: String?
    /// How the offer for the next period is paid (1.12). Only with an offer.
    public var offerDiscountType: Open<OfferDiscountType>?
    /// The win-back offers that the customer is eligible for, best first (1.13). Never during grace or retry.
    public var eligibleWinBackOfferIds: [String]?
    /// What the next renewal of an Advanced Commerce API subscription consists of (1.14). Such products only.
    public var advancedCommerceInfo: AdvancedCommerceRenewalInfo?
    /// The UUID that the next renewal will carry (1.15). Only if the app set one.
    public var appAccountToken: String?
    /// The customer's download of the app: a string of digits (1.15). Always present.
    public var appTransactionId: String?
    /// The length of the offer for the next period: ISO 8601 duration such as `P1M` (1.15). Only with an offer.
    public var offerPeriod: String?
    /// How the next period is billed (1.21). Only with billing plans.
    public var renewalBillingPlanType: Open<BillingPlanType>?
    /// What follows a commitment of several monthly payments (1.21). Only with a commitment.
    public var commitmentInfo: RenewalCommitmentInfo?
    /// The seats of the next period (1.23, sandbox so far). Multi-seat subscriptions only.
    public var renewalQuantity: Int?
    /// The prices of those seats (1.23, sandbox so far). Multi-seat subscriptions only.
    public var multiSeatInfo: RenewalMultiSeatInfo?
    /// Base64 of a hash that binds the payload to one device. Only in tokens from a device.
    public var deviceVerification: String?
    /// The UUID that went into `deviceVerification`. Only with it.
    public var deviceVerificationNonce: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

extension JWSRenewalInfoDecodedPayload: SignedPayload {
    public static var signedKind: SignedKind { .renewalInfo }
}

/// Whether a subscription renews: Apple's `autoRenewStatus`.
public enum AutoRenewStatus: Int, CaseIterable, Sendable {
    case off = 0
    case on = 1
}

/// Why a subscription expired: Apple's `expirationIntent`.
public enum ExpirationIntent: Int, CaseIterable, Sendable {
    case customerCancelled = 1
    case billingError = 2
    /// The customer did not consent to a price increase that needs consent.
    case noConsentToPriceIncrease = 3
    /// The product was not available at the time of renewal.
    case productNotAvailable = 4
    case other = 5
}

/// The state of a price increase: Apple's `priceIncreaseStatus`.
public enum PriceIncreaseStatus: Int, CaseIterable, Sendable {
    /// The customer was asked and has not answered.
    case pending = 0
    /// The customer consented, or was notified of an increase that needs no consent.
    case agreed = 1
}

/// What follows a commitment: Apple's `RenewalCommitmentInfo`. It is about the next commitment; the renewal info around
/// it is about the next month.
public struct RenewalCommitmentInfo: Codable, Hashable, Sendable {
    /// The product of the next commitment.
    public var commitmentAutoRenewProductId: String?
    /// Whether there will be a next commitment.
    public var commitmentAutoRenewStatus: Open<AutoRenewStatus>?
    /// How the next commitment is billed.
    public var commitmentRenewalBillingPlanType: Open<BillingPlanType>?
    /// When the next commitment begins.
    public var commitmentRenewalDate: Timestamp?
    /// The price of the next commitment in milliunits of the renewal info's currency.
    public var commitmentRenewalPrice: Int64?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The prices of a multi-seat subscription's next period: Apple's `multiSeatInfo` of renewal info.
public struct RenewalMultiSeatInfo: Codable, Hashable, Sendable {
    /// Prices by number of seats, as Apple sends them: the names inside a tier are not published yet.
    public var renewalPriceTiers: [JSONValue]?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

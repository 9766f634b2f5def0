// SPDX-License-Identifier: Apache-2.0

/// The next renewal of a subscription, as signed by the App Store: Apple's `JWSRenewalInfoDecodedPayload`.
///
/// Renewal info names no app: match it with a verified transaction by `originalTransactionId` and `environment`. Every
/// property is optional, since Apple leaves out inapplicable members. The number in brackets is the version of the App
/// Store Server API that introduced the property.
public struct JWSRenewalInfoDecodedPayload: Codable, Hashable, Sendable {
    /// The id of the subscription: the transaction id of its first purchase, a string of digits. Always present.
    public var originalTransactionId: String?
    /// The product of the current period. Always present.
    public var productId: String?
    /// The product of the next period. It differs from `productId` if a downgrade or crossgrade is pending. Always
    /// present.
    public var autoRenewProductId: String?
    /// Whether the subscription renews at the end of the period. Always present.
    public var autoRenewStatus: Open<AutoRenewStatus>?
    /// The reason for the subscription's expiration. Absent until the subscription expires.
    public var expirationIntent: Open<ExpirationIntent>?
    /// Whether Apple retries the charge of a failed renewal. Also true in the grace period.
    public var isInBillingRetryPeriod: Bool?
    /// The end of the billing grace period. Only if the subscription has or had a grace period.
    public var gracePeriodExpiresDate: Timestamp?
    /// The state of a price increase. Absent without a price increase.
    public var priceIncreaseStatus: Open<PriceIncreaseStatus>?
    /// The kind of offer for the next period. Only with an offer.
    public var offerType: Open<OfferType>?
    /// The name of the offer for the next period. Present for every offer except introductory offers.
    public var offerIdentifier: String?
    /// The time of the App Store's signature. Of two payloads about a subscription, the later payload counts. Always
    /// present.
    public var signedDate: Timestamp?
    /// The environment of the purchase (1.2). Always present.
    public var environment: Open<Environment>?
    /// The start of the latest stretch of service without a gap of 60 days, in sandbox of 10 minutes (1.5). Trials
    /// count as service; the grace period and billing retry count as gaps. Always present.
    public var recentSubscriptionStartDate: Timestamp?
    /// The end of the newest period, even if the period is over (1.8). Always present.
    public var renewalDate: Timestamp?
    /// The price of the next period in milliunits of `currency`, after any offer (1.12).
    public var renewalPrice: Int64?
    /// ISO 4217 code of `renewalPrice` (1.12). Only with `renewalPrice`.
    public var currency: String?
    /// The payment mode of the offer for the next period (1.12). Only with an offer.
    public var offerDiscountType: Open<OfferDiscountType>?
    /// The win-back offers available to the customer, best first (1.13). Absent during the grace period and billing
    /// retry.
    public var eligibleWinBackOfferIds: [String]?
    /// The parts of the next renewal of an Advanced Commerce API subscription (1.14). Absent for other subscriptions.
    public var advancedCommerceInfo: AdvancedCommerceRenewalInfo?
    /// The UUID attached by the app, which the next renewal will have (1.15). Absent if the app attached none.
    public var appAccountToken: String?
    /// The identifier of the customer's download of the app, a string of digits (1.15). Always present.
    public var appTransactionId: String?
    /// The length of the offer for the next period: ISO 8601 duration such as `P1M` (1.15). Only with an offer.
    public var offerPeriod: String?
    /// The billing plan of the next period (1.21). Only with billing plans.
    public var renewalBillingPlanType: Open<BillingPlanType>?
    /// The renewal after a commitment of several monthly payments (1.21). Only with a commitment.
    public var commitmentInfo: RenewalCommitmentInfo?
    /// The number of seats in the next period (1.23, sandbox so far). Multi-seat subscriptions only.
    public var renewalQuantity: Int?
    /// The prices of the seats in the next period (1.23, sandbox so far). Multi-seat subscriptions only.
    public var multiSeatInfo: RenewalMultiSeatInfo?
    /// Base64 of a hash. The hash binds the payload to one device. Only in tokens from a device.
    public var deviceVerification: String?
    /// The UUID used in `deviceVerification`. Only with `deviceVerification`.
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

/// The reason for a subscription's expiration: Apple's `expirationIntent`.
public enum ExpirationIntent: Int, CaseIterable, Sendable {
    case customerCancelled = 1
    case billingError = 2
    /// The customer did not consent to a price increase that requires consent.
    case noConsentToPriceIncrease = 3
    /// The product was not available at the time of renewal.
    case productNotAvailable = 4
    case other = 5
}

/// The state of a price increase: Apple's `priceIncreaseStatus`.
public enum PriceIncreaseStatus: Int, CaseIterable, Sendable {
    /// The customer was asked and has not answered.
    case pending = 0
    /// The customer consented, or was notified of an increase that requires no consent.
    case agreed = 1
}

/// The renewal of a commitment: Apple's `RenewalCommitmentInfo`. The members describe the next commitment. The
/// enclosing renewal info describes the next month.
public struct RenewalCommitmentInfo: Codable, Hashable, Sendable {
    /// The product of the next commitment.
    public var commitmentAutoRenewProductId: String?
    /// Whether a next commitment will follow.
    public var commitmentAutoRenewStatus: Open<AutoRenewStatus>?
    /// The billing plan of the next commitment.
    public var commitmentRenewalBillingPlanType: Open<BillingPlanType>?
    /// The start of the next commitment.
    public var commitmentRenewalDate: Timestamp?
    /// The price of the next commitment in milliunits of the renewal info's currency.
    public var commitmentRenewalPrice: Int64?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The prices of a multi-seat subscription's next period: Apple's `multiSeatInfo` of renewal info.
public struct RenewalMultiSeatInfo: Codable, Hashable, Sendable {
    /// The price tiers by number of seats. Each tier is exactly as Apple sends it, because Apple has not yet published
    /// the members of a tier.
    public var renewalPriceTiers: [JSONValue]?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

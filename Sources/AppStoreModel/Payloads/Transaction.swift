// SPDX-License-Identifier: Apache-2.0

/// A purchase as the App Store signs it: Apple's `JWSTransactionDecodedPayload`.
///
/// Apple adds members over the years and leaves out those that do not apply, so every property is optional.
/// `unknownMembers` keeps the members that this version does not know. The number in brackets is the App Store Server
/// API version that introduced the property, if later than 1.0.
public struct JWSTransactionDecodedPayload: Codable, Hashable, Sendable {
    /// This purchase, renewal or restore: a string of digits. Always present.
    public var transactionId: String?
    /// The first purchase of the chain, which identifies a subscription: a string of digits. Always present.
    public var originalTransactionId: String?
    /// One purchase event of a subscription, the same on all devices: a string of digits. Subscriptions only.
    public var webOrderLineItemId: String?
    /// The app. Always present.
    public var bundleId: String?
    /// The product, as named in App Store Connect. Always present.
    public var productId: String?
    /// The subscription's group: a string of digits. Subscriptions only.
    public var subscriptionGroupIdentifier: String?
    /// When the customer was charged for the purchase, restore or renewal. Always present.
    public var purchaseDate: Timestamp?
    /// The `purchaseDate` of the original transaction. Always present.
    public var originalPurchaseDate: Timestamp?
    /// The end of the paid period. Subscriptions only; a renewal is a new transaction with a new date.
    public var expiresDate: Timestamp?
    /// The number of items, or the seats of a multi-seat subscription. More than 1 only for these and consumables.
    /// Always present.
    public var quantity: Int?
    /// The kind of product. Always present.
    public var type: Open<ProductType>?
    /// The UUID that the app attached to the purchase. Only if the app attached one.
    public var appAccountToken: String?
    /// Whether the customer bought it or has it through another customer. Always present.
    public var inAppOwnershipType: Open<InAppOwnershipType>?
    /// When the App Store signed this. Of two payloads about one transaction, the later one counts. Always present.
    public var signedDate: Timestamp?
    /// Why it was refunded or revoked. Only with `revocationDate`.
    public var revocationReason: Open<RevocationReason>?
    /// When it was refunded, or lost through Family Sharing or a seat assignment. Only if it was.
    public var revocationDate: Timestamp?
    /// Whether the customer upgraded to another subscription. Absent if false, except from Xcode.
    public var isUpgraded: Bool?
    /// The kind of offer that was used. Only with an offer.
    public var offerType: Open<OfferType>?
    /// The offer's name in App Store Connect. With every offer but introductory ones.
    public var offerIdentifier: String?
    /// Where the purchase was made (1.2). Always present.
    public var environment: Open<Environment>?
    /// The storefront's country: ISO 3166-1 alpha-3 (1.8). Always present.
    public var storefront: String?
    /// Apple's number for the storefront, such as 143441 for the USA (1.8). Always present.
    public var storefrontId: String?
    /// Who caused the transaction (1.8). Always present.
    public var transactionReason: Open<TransactionReason>?
    /// The price paid in milliunits of `currency`, with quantity and offer included (1.10).
    public var price: Int64?
    /// ISO 4217 code of `price` (1.10). Only with `price`.
    public var currency: String?
    /// How the offer was paid (1.10). Only with an offer.
    public var offerDiscountType: Open<OfferDiscountType>?
    /// What an Advanced Commerce API purchase consists of (1.14). Such products only.
    public var advancedCommerceInfo: AdvancedCommerceTransactionInfo?
    /// The customer's download of the app: a string of digits that survives refunds and reinstalls (1.15).
    public var appTransactionId: String?
    /// The length of the offer: ISO 8601 duration such as `P1M` (1.15). Only with an offer.
    public var offerPeriod: String?
    /// The original transaction from before a migration to the Advanced Commerce API (Server Notifications 2.16).
    public var previousOriginalTransactionId: String?
    /// What kind of revocation it was (1.19). Only with `revocationDate`.
    public var revocationType: Open<RevocationType>?
    /// The refunded share in thousandths of a percent, 0 to 100000 (1.19). Only with a refund that was not reversed.
    public var revocationPercentage: Int?
    /// How the subscription is billed (1.21). Only with billing plans.
    public var billingPlanType: Open<BillingPlanType>?
    /// The state of a commitment of several monthly payments (1.21). Only with a commitment.
    public var commitmentInfo: TransactionCommitmentInfo?
    /// The seats of a multi-seat subscription (1.23, sandbox so far).
    public var multiSeatInfo: TransactionMultiSeatInfo?
    /// More about the transaction's cause (1.23, sandbox so far).
    public var additionalTransactionReason: Open<AdditionalTransactionReason>?
    /// Base64 of a hash that binds the payload to one device. Only in tokens from a device.
    public var deviceVerification: String?
    /// The UUID that went into `deviceVerification`. Only with it.
    public var deviceVerificationNonce: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

extension JWSTransactionDecodedPayload: SignedPayload {
    public static var signedKind: SignedKind { .transaction }
}

/// A product's kind: Apple's `type` of a transaction.
public enum ProductType: String, CaseIterable, Sendable {
    case autoRenewableSubscription = "Auto-Renewable Subscription"
    case nonConsumable = "Non-Consumable"
    case consumable = "Consumable"
    case nonRenewingSubscription = "Non-Renewing Subscription"
}

/// How a customer got a purchase: Apple's `inAppOwnershipType`.
public enum InAppOwnershipType: String, CaseIterable, Sendable {
    case purchased = "PURCHASED"
    case familyShared = "FAMILY_SHARED"
    /// A seat that another customer paid for (1.22, sandbox so far).
    case assigned = "ASSIGNED"
}

/// Who caused a transaction: Apple's `transactionReason`.
public enum TransactionReason: String, CaseIterable, Sendable {
    /// The customer; also upgrades and resubscribing.
    case purchase = "PURCHASE"
    /// The App Store; also a downgrade that takes effect.
    case renewal = "RENEWAL"
}

/// More about a transaction's cause: Apple's `additionalTransactionReason`.
public enum AdditionalTransactionReason: String, CaseIterable, Sendable {
    case seatAddition = "SEAT_ADDITION"
}

/// The kind of a subscription offer: Apple's `offerType`.
public enum OfferType: Int, CaseIterable, Sendable {
    case introductory = 1
    case promotional = 2
    case offerCode = 3
    case winBack = 4
}

/// How an offer is paid: Apple's `offerDiscountType`.
public enum OfferDiscountType: String, CaseIterable, Sendable {
    case freeTrial = "FREE_TRIAL"
    case payAsYouGo = "PAY_AS_YOU_GO"
    case payUpFront = "PAY_UP_FRONT"
    /// Offer codes on products that are no subscriptions (1.18).
    case oneTime = "ONE_TIME"
}

/// Why a purchase was refunded or revoked: Apple's `revocationReason`.
public enum RevocationReason: Int, CaseIterable, Sendable {
    /// Another reason, such as an accidental purchase.
    case other = 0
    /// An actual or perceived problem with the app.
    case appIssue = 1
}

/// What kind of revocation it was: Apple's `revocationType`.
public enum RevocationType: String, CaseIterable, Sendable {
    case refundFull = "REFUND_FULL"
    case refundProrated = "REFUND_PRORATED"
    case familyRevoke = "FAMILY_REVOKE"
    case assignmentRevoke = "ASSIGNMENT_REVOKE"
}

/// How a subscription is billed: Apple's `billingPlanType`.
public enum BillingPlanType: String, CaseIterable, Sendable {
    case billedUpfront = "BILLED_UPFRONT"
    case monthly = "MONTHLY"
}

/// The state of a commitment: Apple's `TransactionCommitmentInfo`.
public struct TransactionCommitmentInfo: Codable, Hashable, Sendable {
    /// The number of this transaction's payment, from 1 to `totalBillingPeriods`.
    public var billingPeriodNumber: Int?
    /// How many payments the commitment has.
    public var totalBillingPeriods: Int?
    /// The end of the commitment.
    public var commitmentExpiresDate: Timestamp?
    /// The price of the whole commitment in milliunits of the transaction's currency.
    public var commitmentPrice: Int64?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The seats of a multi-seat subscription: Apple's `multiSeatInfo` of a transaction.
public struct TransactionMultiSeatInfo: Codable, Hashable, Sendable {
    /// Who invites members: `APPLE` or `DEVELOPER`.
    public var invitationManagement: String?
    /// Prices by number of seats, as Apple sends them: the names inside a tier are not published yet.
    public var priceTiers: [JSONValue]?
    /// Seats that were revoked. Subtract them from the quantities of the period to get the seats in force.
    public var revokedSeatQuantity: Int?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

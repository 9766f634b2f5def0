// SPDX-License-Identifier: Apache-2.0

/// A purchase, as signed by the App Store: Apple's `JWSTransactionDecodedPayload`.
///
/// Every property is optional, because Apple adds members over the years and leaves out inapplicable members.
/// `unknownMembers` keeps the members unknown to this version. The number in brackets is the version of the App Store
/// Server API that introduced the property, if later than 1.0.
public struct JWSTransactionDecodedPayload: Codable, Hashable, Sendable {
    /// The id of this purchase, renewal or restore: a string of digits. Always present.
    public var transactionId: String?
    /// The id of the first purchase, the same for all its renewals and restores: a string of digits. It identifies a
    /// subscription. Always present.
    public var originalTransactionId: String?
    /// The id of a purchase event of a subscription, the same on all devices: a string of digits. Subscriptions only.
    public var webOrderLineItemId: String?
    /// The bundle id of the app. Always present.
    public var bundleId: String?
    /// The product id from App Store Connect. Always present.
    public var productId: String?
    /// The id of the subscription's group: a string of digits. Subscriptions only.
    public var subscriptionGroupIdentifier: String?
    /// The time of the charge for the purchase, restore or renewal. Always present.
    public var purchaseDate: Timestamp?
    /// The `purchaseDate` of the original transaction. Always present.
    public var originalPurchaseDate: Timestamp?
    /// The end of the paid period. Subscriptions only; a renewal is a new transaction with a new date.
    public var expiresDate: Timestamp?
    /// The number of items, or of seats in a multi-seat subscription. It exceeds 1 only for consumables and multi-seat
    /// subscriptions. Always present.
    public var quantity: Int?
    /// The kind of product. Always present.
    public var type: Open<ProductType>?
    /// The UUID attached to the purchase by the app. Only if the app attached a UUID.
    public var appAccountToken: String?
    /// Whether the customer bought the product, or has access through another customer's purchase. Always present.
    public var inAppOwnershipType: Open<InAppOwnershipType>?
    /// The time of the App Store's signature. Of two payloads about a transaction, the later payload counts. Always
    /// present.
    public var signedDate: Timestamp?
    /// The reason for the refund or the revocation. Only with `revocationDate`.
    public var revocationReason: Open<RevocationReason>?
    /// The time of a refund, or the time when access through Family Sharing or an assigned seat ended. Otherwise
    /// missing.
    public var revocationDate: Timestamp?
    /// Whether the customer upgraded to a different subscription. Absent if false, except from Xcode.
    public var isUpgraded: Bool?
    /// The kind of the redeemed offer. Only with an offer.
    public var offerType: Open<OfferType>?
    /// The offer's name in App Store Connect. Present for every offer except introductory offers.
    public var offerIdentifier: String?
    /// The environment of the purchase (1.2). Always present.
    public var environment: Open<Environment>?
    /// The storefront's country: ISO 3166-1 alpha-3 (1.8). Always present.
    public var storefront: String?
    /// Apple's number for the storefront, such as 143441 for the USA (1.8). Always present.
    public var storefrontId: String?
    /// Whether the customer or the App Store started the transaction (1.8). Always present.
    public var transactionReason: Open<TransactionReason>?
    /// The price paid in milliunits of `currency`, with quantity and offer included (1.10).
    public var price: Int64?
    /// ISO 4217 code of `price` (1.10). Only with `price`.
    public var currency: String?
    /// The payment mode of the offer (1.10). Only with an offer.
    public var offerDiscountType: Open<OfferDiscountType>?
    /// The parts of an Advanced Commerce API purchase (1.14). Absent for other purchases.
    public var advancedCommerceInfo: AdvancedCommerceTransactionInfo?
    /// The identifier of the customer's download of the app, a string of digits (1.15). It stays the same after refunds
    /// and reinstalls.
    public var appTransactionId: String?
    /// The length of the offer: ISO 8601 duration such as `P1M` (1.15). Only with an offer.
    public var offerPeriod: String?
    /// The original transaction id from before a migration to the Advanced Commerce API (Server Notifications 2.16).
    public var previousOriginalTransactionId: String?
    /// The kind of revocation (1.19). Only with `revocationDate`.
    public var revocationType: Open<RevocationType>?
    /// The refunded share in thousandths of a percent, 0 to 100000 (1.19). Absent if there was no refund, or if the
    /// refund was reversed.
    public var revocationPercentage: Int?
    /// The billing plan of the subscription (1.21). Only with billing plans.
    public var billingPlanType: Open<BillingPlanType>?
    /// The state of a commitment of several monthly payments (1.21). Only with a commitment.
    public var commitmentInfo: TransactionCommitmentInfo?
    /// The seats of a multi-seat subscription (1.23, sandbox so far).
    public var multiSeatInfo: TransactionMultiSeatInfo?
    /// Details of the transaction's cause (1.23, sandbox so far).
    public var additionalTransactionReason: Open<AdditionalTransactionReason>?
    /// Base64 of a hash. The hash binds the payload to one device. Only in tokens from a device.
    public var deviceVerification: String?
    /// The UUID used in `deviceVerification`. Only with `deviceVerification`.
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

/// The way in which a customer got a purchase: Apple's `inAppOwnershipType`.
public enum InAppOwnershipType: String, CaseIterable, Sendable {
    case purchased = "PURCHASED"
    case familyShared = "FAMILY_SHARED"
    /// A seat paid for by a different customer (1.22, sandbox so far).
    case assigned = "ASSIGNED"
}

/// The party that started a transaction: Apple's `transactionReason`.
public enum TransactionReason: String, CaseIterable, Sendable {
    /// The customer, also for upgrades and resubscriptions.
    case purchase = "PURCHASE"
    /// The App Store, also for a downgrade at the start of its first period.
    case renewal = "RENEWAL"
}

/// Details of a transaction's cause: Apple's `additionalTransactionReason`.
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

/// The payment mode of an offer: Apple's `offerDiscountType`.
public enum OfferDiscountType: String, CaseIterable, Sendable {
    case freeTrial = "FREE_TRIAL"
    case payAsYouGo = "PAY_AS_YOU_GO"
    case payUpFront = "PAY_UP_FRONT"
    /// Offer codes on products other than subscriptions (1.18).
    case oneTime = "ONE_TIME"
}

/// The reason for a refund or a revocation: Apple's `revocationReason`.
public enum RevocationReason: Int, CaseIterable, Sendable {
    /// Any other reason, such as an accidental purchase.
    case other = 0
    /// An actual or perceived problem with the app.
    case appIssue = 1
}

/// The kind of revocation: Apple's `revocationType`.
public enum RevocationType: String, CaseIterable, Sendable {
    case refundFull = "REFUND_FULL"
    case refundProrated = "REFUND_PRORATED"
    case familyRevoke = "FAMILY_REVOKE"
    case assignmentRevoke = "ASSIGNMENT_REVOKE"
}

/// The billing plan of a subscription: Apple's `billingPlanType`.
public enum BillingPlanType: String, CaseIterable, Sendable {
    case billedUpfront = "BILLED_UPFRONT"
    case monthly = "MONTHLY"
}

/// The state of a commitment: Apple's `TransactionCommitmentInfo`.
public struct TransactionCommitmentInfo: Codable, Hashable, Sendable {
    /// The number of the payment for this transaction, from 1 to `totalBillingPeriods`.
    public var billingPeriodNumber: Int?
    /// The number of payments in the commitment.
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
    /// The party that invites members: `APPLE` or `DEVELOPER`.
    public var invitationManagement: String?
    /// The price tiers by number of seats. Each tier is exactly as Apple sends it, because Apple has not yet published
    /// the members of a tier.
    public var priceTiers: [JSONValue]?
    /// The number of revoked seats. If the period has only this transaction, ``JWSTransactionDecodedPayload/quantity``
    /// minus this number is the number of seats in force. Apple does not document how several transactions of a period
    /// share the revoked seats.
    public var revokedSeatQuantity: Int?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

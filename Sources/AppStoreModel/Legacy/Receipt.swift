// SPDX-License-Identifier: Apache-2.0

/// The decoded app receipt in a verifyReceipt answer: Apple's `responseBody.Receipt`.
///
/// A date is a single property here. In the JSON, a date has three members: `…_date`, `…_date_ms` and `…_date_pst`.
public struct Receipt: LegacyObject {
    /// `receipt_type`: such as `Production` or `ProductionSandbox`. Always present.
    public var receiptType: Open<ReceiptType>?
    /// `adam_id`: the app's Apple ID. Always present; 0 in sandbox.
    public var adamId: Int64?
    /// `app_item_id`: the same number as `adam_id`. Always present; 0 in sandbox.
    public var appItemId: Int64?
    /// `bundle_id`. Always present.
    public var bundleId: String?
    /// `application_version`: `CFBundleVersion`, on macOS `CFBundleShortVersionString`. Always present.
    public var applicationVersion: String?
    /// `download_id`: up to 18 digits. Always present; 0 in sandbox.
    public var downloadId: Int64?
    /// `version_external_identifier`: Apple's identifier of the app version. Always present; 0 in sandbox.
    public var versionExternalIdentifier: Int64?
    /// `receipt_creation_date`: the time of the receipt's signature. Always present.
    public var receiptCreationDate: Timestamp?
    /// `request_date`: the time of the answer. Always present in an answer.
    public var requestDate: Timestamp?
    /// `original_purchase_date`: the time of the app's own purchase. Always present; in sandbox always 1 August 2013.
    public var originalPurchaseDate: Timestamp?
    /// `original_application_version`: the version of the app when it was bought. Always present; in sandbox always
    /// `1.0`.
    public var originalApplicationVersion: String?
    /// `preorder_date`. Only for an app ordered before its release.
    public var preorderDate: Timestamp?
    /// `expiration_date`. Only in Volume Purchase Program receipts; missing if the receipt never expires.
    public var expirationDate: Timestamp?
    /// `in_app`: the purchases in the receipt's order, which is not chronological. Empty if there are no purchases.
    public var inApp: [LatestReceiptInfo]?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}

    public mutating func visit<Visitor: LegacyVisitor>(_ visitor: inout Visitor) {
        visitor.word("receipt_type", &receiptType)
        visitor.number("adam_id", &adamId)
        visitor.number("app_item_id", &appItemId)
        visitor.text("bundle_id", &bundleId)
        visitor.text("application_version", &applicationVersion)
        visitor.number("download_id", &downloadId)
        visitor.number("version_external_identifier", &versionExternalIdentifier)
        visitor.dates(.receiptCreationDate, &receiptCreationDate)
        visitor.dates(.requestDate, &requestDate)
        visitor.dates(.originalPurchaseDate, &originalPurchaseDate)
        visitor.text("original_application_version", &originalApplicationVersion)
        visitor.dates(.preorderDate, &preorderDate)
        visitor.dates(.expirationDate, &expirationDate)
        visitor.objects("in_app", &inApp)
    }
}

/// The kind of App Store that signed a receipt: Apple's `receipt_type`.
public enum ReceiptType: String, CaseIterable, Sendable {
    case production = "Production"
    /// Volume Purchase Program.
    case productionVPP = "ProductionVPP"
    case productionSandbox = "ProductionSandbox"
    /// Volume Purchase Program.
    case productionVPPSandbox = "ProductionVPPSandbox"
    case xcode = "Xcode"

    /// The environment of receipts of this kind.
    public var environment: Environment {
        switch self {
        case .production, .productionVPP: .production
        case .productionSandbox, .productionVPPSandbox: .sandbox
        case .xcode: .xcode
        }
    }
}

/// A transaction in a verifyReceipt answer: Apple's `responseBody.Latest_receipt_info`, and with fewer members
/// `responseBody.Receipt.In_app`.
///
/// In the JSON every value is text.
public struct LatestReceiptInfo: LegacyObject {
    /// `quantity`: 1 to 10. Always present.
    public var quantity: Int64?
    /// `product_id`. Always present.
    public var productId: String?
    /// `transaction_id`: the id of the purchase, renewal or restore. Always present.
    public var transactionId: String?
    /// `original_transaction_id`: the id of the first purchase, the same for all its renewals and restores. Always
    /// present.
    public var originalTransactionId: String?
    /// `purchase_date`: for a renewal, the start of the period. Always present.
    public var purchaseDate: Timestamp?
    /// `original_purchase_date`. Always present.
    public var originalPurchaseDate: Timestamp?
    /// `expires_date`. Subscriptions only.
    public var expiresDate: Timestamp?
    /// `cancellation_date`: the time of a refund or an upgrade, or the time when access through Family Sharing ended.
    /// Otherwise missing. The date may have milliseconds.
    public var cancellationDate: Timestamp?
    /// `web_order_line_item_id`: the id of the purchase event, the same on all devices. Subscriptions only, but not
    /// those shared through Family Sharing.
    public var webOrderLineItemId: String?
    /// `is_trial_period`: whether the period is a free trial. Always present.
    public var isTrialPeriod: Bool?
    /// `is_in_intro_offer_period`: whether the period is a paid introductory offer. Subscriptions only.
    public var isInIntroOfferPeriod: Bool?
    /// `cancellation_reason`. Only with `cancellationDate`.
    public var cancellationReason: Open<RevocationReason>?
    /// `is_upgraded`: whether the customer upgraded to a different subscription. Present only if true; not in `in_app`.
    public var isUpgraded: Bool?
    /// `promotional_offer_id`. Only with a promotional offer.
    public var promotionalOfferId: String?
    /// `offer_code_ref_name`: the name of the offer code. Only with an offer code; not in `in_app`.
    public var offerCodeRefName: String?
    /// `in_app_ownership_type`. In answers since 2020.
    public var inAppOwnershipType: Open<InAppOwnershipType>?
    /// `subscription_group_identifier`: a string of digits. Subscriptions only; not in `in_app`.
    public var subscriptionGroupIdentifier: String?
    /// `app_account_token`: the UUID attached to the purchase by the app. Missing if the app attached none; not in
    /// `in_app`.
    public var appAccountToken: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}

    public mutating func visit<Visitor: LegacyVisitor>(_ visitor: inout Visitor) {
        visitor.digits("quantity", &quantity)
        visitor.text("product_id", &productId)
        visitor.text("transaction_id", &transactionId)
        visitor.text("original_transaction_id", &originalTransactionId)
        visitor.dates(.purchaseDate, &purchaseDate)
        visitor.dates(.originalPurchaseDate, &originalPurchaseDate)
        visitor.dates(.expiresDate, &expiresDate)
        visitor.dates(.cancellationDate, &cancellationDate)
        visitor.text("web_order_line_item_id", &webOrderLineItemId)
        visitor.boolText("is_trial_period", &isTrialPeriod)
        visitor.boolText("is_in_intro_offer_period", &isInIntroOfferPeriod)
        visitor.digits("cancellation_reason", &cancellationReason)
        visitor.boolText("is_upgraded", &isUpgraded)
        visitor.text("promotional_offer_id", &promotionalOfferId)
        visitor.text("offer_code_ref_name", &offerCodeRefName)
        visitor.word("in_app_ownership_type", &inAppOwnershipType)
        visitor.text("subscription_group_identifier", &subscriptionGroupIdentifier)
        visitor.text("app_account_token", &appAccountToken)
    }
}

/// The next renewal of a subscription in a verifyReceipt answer: Apple's `responseBody.Pending_renewal_info`.
///
/// An answer has one element per subscription. In the JSON every value is text.
public struct PendingRenewalInfo: LegacyObject {
    /// `auto_renew_product_id`: the product of the next period. Always present.
    public var autoRenewProductId: String?
    /// `product_id`: the product of the current or last period. Always present.
    public var productId: String?
    /// `original_transaction_id`: the id of the subscription, which is the transaction id of its first purchase. In
    /// answers since 2018.
    public var originalTransactionId: String?
    /// `auto_renew_status`. Always present.
    public var autoRenewStatus: Open<AutoRenewStatus>?
    /// `expiration_intent`. Expired subscriptions only.
    public var expirationIntent: Open<ExpirationIntent>?
    /// `is_in_billing_retry_period`. Only after a failed charge, or after the subscription expired.
    public var isInBillingRetryPeriod: Bool?
    /// `grace_period_expires_date`. Only in the billing grace period.
    public var gracePeriodExpiresDate: Timestamp?
    /// `price_consent_status`: whether the customer agreed to the price. Only for a price increase that requires
    /// consent.
    public var priceConsentStatus: Open<PriceIncreaseStatus>?
    /// `price_increase_status`. Only for a price increase.
    public var priceIncreaseStatus: Open<PriceIncreaseStatus>?
    /// `offer_code_ref_name`: the offer code of the next period. Only with an offer code.
    public var offerCodeRefName: String?
    /// `promotional_offer_id`: the promotional offer of the next period. Only with a promotional offer.
    public var promotionalOfferId: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}

    public mutating func visit<Visitor: LegacyVisitor>(_ visitor: inout Visitor) {
        visitor.digits("expiration_intent", &expirationIntent)
        visitor.text("auto_renew_product_id", &autoRenewProductId)
        visitor.boolDigit("is_in_billing_retry_period", &isInBillingRetryPeriod)
        visitor.text("product_id", &productId)
        visitor.text("original_transaction_id", &originalTransactionId)
        visitor.digits("auto_renew_status", &autoRenewStatus)
        visitor.dates(.gracePeriodExpiresDate, &gracePeriodExpiresDate)
        visitor.digits("price_consent_status", &priceConsentStatus)
        visitor.digits("price_increase_status", &priceIncreaseStatus)
        visitor.text("offer_code_ref_name", &offerCodeRefName)
        visitor.text("promotional_offer_id", &promotionalOfferId)
    }
}

extension LegacyDateNames {
    static let purchaseDate = Self(
        gmt: "purchase_date", milliseconds: "purchase_date_ms", pacific: "purchase_date_pst")
    static let originalPurchaseDate = Self(
        gmt: "original_purchase_date", milliseconds: "original_purchase_date_ms", pacific: "original_purchase_date_pst")
    static let expiresDate = Self(gmt: "expires_date", milliseconds: "expires_date_ms", pacific: "expires_date_pst")
    static let cancellationDate = Self(
        gmt: "cancellation_date", milliseconds: "cancellation_date_ms", pacific: "cancellation_date_pst")
    static let gracePeriodExpiresDate = Self(
        gmt: "grace_period_expires_date", milliseconds: "grace_period_expires_date_ms",
        pacific: "grace_period_expires_date_pst")
    static let receiptCreationDate = Self(
        gmt: "receipt_creation_date", milliseconds: "receipt_creation_date_ms", pacific: "receipt_creation_date_pst")
    static let requestDate = Self(gmt: "request_date", milliseconds: "request_date_ms", pacific: "request_date_pst")
    static let preorderDate = Self(gmt: "preorder_date", milliseconds: "preorder_date_ms", pacific: "preorder_date_pst")
    static let expirationDate = Self(
        gmt: "expiration_date", milliseconds: "expiration_date_ms", pacific: "expiration_date_pst")
}

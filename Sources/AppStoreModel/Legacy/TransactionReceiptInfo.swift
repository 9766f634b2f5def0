// SPDX-License-Identifier: Apache-2.0

/// An answer of verifyReceipt about a transaction receipt from before iOS 7. Apple calls this format the iOS 6 style.
///
/// ``isTransactionReceiptStyle(_:)`` recognises answers in this style.
public struct VerifyTransactionReceiptResponse: LegacyObject {
    /// `receipt`: the content of the receipt in the request. Only with status 0 or 21006.
    public var receipt: TransactionReceiptInfo?
    /// `latest_receipt_info`: the newest renewal. Only for an active auto-renewable subscription.
    public var latestReceiptInfo: TransactionReceiptInfo?
    /// `latest_expired_receipt_info`: the newest renewal. Only with status 21006.
    public var latestExpiredReceiptInfo: TransactionReceiptInfo?
    /// `latest_receipt`: the newest transaction receipt as base64. Only for an active subscription.
    public var latestReceipt: String?
    /// `auto_renew_status`: a number, unlike in newer answers. Auto-renewable subscriptions since 2017.
    public var autoRenewStatus: Open<AutoRenewStatus>?
    /// `expiration_intent`. Expired subscriptions only.
    public var expirationIntent: Open<ExpirationIntent>?
    /// `is_in_billing_retry_period`. Expired subscriptions only.
    public var isInBillingRetryPeriod: Bool?
    /// `auto_renew_product_id`. Auto-renewable subscriptions since 2017.
    public var autoRenewProductId: String?
    /// `cancellation_reason`. Only after a refund.
    public var cancellationReason: Open<RevocationReason>?
    /// `environment`. Usually missing.
    public var environment: Open<Environment>?
    /// `status`: 0, or 21006 for an expired subscription. Always present.
    public var status: Open<VerifyReceiptStatus>?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}

    public mutating func visit<Visitor: LegacyVisitor>(_ visitor: inout Visitor) {
        visitor.object("receipt", &receipt)
        visitor.object("latest_receipt_info", &latestReceiptInfo)
        visitor.object("latest_expired_receipt_info", &latestExpiredReceiptInfo)
        visitor.text("latest_receipt", &latestReceipt)
        visitor.number("auto_renew_status", &autoRenewStatus)
        visitor.digits("expiration_intent", &expirationIntent)
        visitor.boolDigit("is_in_billing_retry_period", &isInBillingRetryPeriod)
        visitor.text("auto_renew_product_id", &autoRenewProductId)
        visitor.digits("cancellation_reason", &cancellationReason)
        visitor.word("environment", &environment)
        visitor.status("status", &status)
    }

    /// Whether an answer of verifyReceipt is in the iOS 6 style. Only in this style, `receipt` has the members of the
    /// purchase itself, `latest_receipt_info` is an object, and `latest_expired_receipt_info` may be present.
    public static func isTransactionReceiptStyle(_ response: JSONValue) -> Bool {
        response["receipt"]?["bid"] != nil || response["latest_receipt_info"]?.members != nil
            || response["latest_expired_receipt_info"] != nil
    }
}

/// A purchase in the iOS 6 style: the flat `receipt` of an answer about an old transaction receipt.
public struct TransactionReceiptInfo: LegacyObject {
    /// `bid`: the bundle id of the app. Always present.
    public var bid: String?
    /// `bvrs`: the app's `CFBundleVersion`. Always present.
    public var bvrs: String?
    /// `item_id`: the product's Apple ID. Always present.
    public var itemId: String?
    /// `app_item_id`: the app's Apple ID. Present in production, and in some newer sandbox receipts.
    public var appItemId: String?
    /// `version_external_identifier`: Apple's identifier of the app version. Present in production, and in newer
    /// sandbox receipts.
    public var versionExternalIdentifier: String?
    /// `product_id`. Always present.
    public var productId: String?
    /// `quantity`. Always present.
    public var quantity: Int64?
    /// `transaction_id`. Always present.
    public var transactionId: String?
    /// `original_transaction_id`. Always present.
    public var originalTransactionId: String?
    /// `purchase_date`. Always present.
    public var purchaseDate: Timestamp?
    /// `original_purchase_date`. Always present.
    public var originalPurchaseDate: Timestamp?
    /// `expires_date` in milliseconds, `expires_date_formatted`, `expires_date_formatted_pst`. Subscriptions only.
    public var expiresDate: Timestamp?
    /// `cancellation_date`. Only after a refund.
    public var cancellationDate: Timestamp?
    /// `web_order_line_item_id`. Subscriptions only.
    public var webOrderLineItemId: String?
    /// `unique_identifier`: the device's UDID. Usually present.
    public var uniqueIdentifier: String?
    /// `unique_vendor_identifier`: `identifierForVendor` of the purchasing device. Usually present.
    public var uniqueVendorIdentifier: String?
    /// `is_trial_period`. Newer subscriptions only.
    public var isTrialPeriod: Bool?
    /// `is_in_intro_offer_period`. Newer subscriptions only.
    public var isInIntroOfferPeriod: Bool?
    /// `subscription_group_identifier`. Since 2021.
    public var subscriptionGroupIdentifier: String?
    /// `in_app_ownership_type`. Since 2021.
    public var inAppOwnershipType: Open<InAppOwnershipType>?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}

    public mutating func visit<Visitor: LegacyVisitor>(_ visitor: inout Visitor) {
        visitor.text("bid", &bid)
        visitor.text("bvrs", &bvrs)
        visitor.text("item_id", &itemId)
        visitor.text("app_item_id", &appItemId)
        visitor.text("version_external_identifier", &versionExternalIdentifier)
        visitor.text("product_id", &productId)
        visitor.digits("quantity", &quantity)
        visitor.text("transaction_id", &transactionId)
        visitor.text("original_transaction_id", &originalTransactionId)
        visitor.dates(.purchaseDate, &purchaseDate)
        visitor.dates(.originalPurchaseDate, &originalPurchaseDate)
        visitor.dates(.formattedExpiresDate, &expiresDate)
        visitor.dates(.cancellationDate, &cancellationDate)
        visitor.text("web_order_line_item_id", &webOrderLineItemId)
        visitor.text("unique_identifier", &uniqueIdentifier)
        visitor.text("unique_vendor_identifier", &uniqueVendorIdentifier)
        visitor.boolText("is_trial_period", &isTrialPeriod)
        visitor.boolText("is_in_intro_offer_period", &isInIntroOfferPeriod)
        visitor.text("subscription_group_identifier", &subscriptionGroupIdentifier)
        visitor.word("in_app_ownership_type", &inAppOwnershipType)
    }
}

extension LegacyDateNames {
    fileprivate static let formattedExpiresDate = Self(
        gmt: "expires_date_formatted", milliseconds: "expires_date", pacific: "expires_date_formatted_pst")
}

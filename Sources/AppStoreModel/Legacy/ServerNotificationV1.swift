// SPDX-License-Identifier: Apache-2.0

/// A version 1 server notification: Apple's `responseBodyV1`.
///
/// The notification is not signed. Verify `unifiedReceipt.latestReceipt`, and rely only on the verified receipt.
/// `password` is only a weak sign that the notification comes from the App Store.
public struct ResponseBodyV1: LegacyObject {
    /// `notification_type`: the kind of event. Always present.
    public var notificationType: Open<NotificationTypeV1>?
    /// `password`: the app's shared secret.
    @Hidden public var password: String? = nil
    /// `environment`: `Sandbox` or `PROD`, a word that only version 1 notifications use. See ``modernEnvironment``.
    public var environment: Open<NotificationEnvironmentV1>?
    /// `auto_renew_product_id`: the product of the next period.
    public var autoRenewProductId: String?
    /// `auto_renew_adam_id`: the Apple ID of the product of the next period, a string of digits.
    public var autoRenewAdamId: String?
    /// `auto_renew_status`: a string here, `"true"` or `"false"`.
    public var autoRenewStatus: Bool?
    /// `auto_renew_status_change_date`: the time of the last change of `auto_renew_status`.
    public var autoRenewStatusChangeDate: Timestamp?
    /// `bid`: the bundle id of the app.
    public var bid: String?
    /// `bvrs`: the app's version.
    public var bvrs: String?
    /// `expiration_intent`: a number here. Expired subscriptions only.
    public var expirationIntent: Open<ExpirationIntent>?
    /// `original_transaction_id`: a number here.
    public var originalTransactionId: String?
    /// `deprecation`: the date when Apple deprecated version 1 notifications. Present since June 2023.
    public var deprecation: String?
    /// `unified_receipt`: the newest purchases and the newest receipt.
    public var unifiedReceipt: UnifiedReceipt?

    // Apple sent the members below until 10 March 2021.

    /// `latest_receipt`: a receipt as base64.
    public var latestReceipt: String?
    /// `latest_receipt_info`: a purchase in the iOS 6 style, the format for receipts from before iOS 7.
    public var latestReceiptInfo: TransactionReceiptInfo?
    /// `latest_expired_receipt`: a receipt as base64.
    public var latestExpiredReceipt: String?
    /// `latest_expired_receipt_info`: a purchase in the iOS 6 style.
    public var latestExpiredReceiptInfo: TransactionReceiptInfo?
    /// `web_order_line_item_id`: `CANCEL` only.
    public var webOrderLineItemId: String?
    /// `cancellation_date`: `CANCEL` only.
    public var cancellationDate: Timestamp?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}

    public mutating func visit<Visitor: LegacyVisitor>(_ visitor: inout Visitor) {
        visitor.word("notification_type", &notificationType)
        visitor.text("password", &password)
        visitor.word("environment", &environment)
        visitor.text("auto_renew_product_id", &autoRenewProductId)
        visitor.text("auto_renew_adam_id", &autoRenewAdamId)
        visitor.boolText("auto_renew_status", &autoRenewStatus)
        visitor.dates(.autoRenewStatusChangeDate, &autoRenewStatusChangeDate)
        visitor.text("bid", &bid)
        visitor.text("bvrs", &bvrs)
        visitor.number("expiration_intent", &expirationIntent)
        visitor.identifierNumber("original_transaction_id", &originalTransactionId)
        visitor.text("deprecation", &deprecation)
        visitor.object("unified_receipt", &unifiedReceipt)
        visitor.text("latest_receipt", &latestReceipt)
        visitor.object("latest_receipt_info", &latestReceiptInfo)
        visitor.text("latest_expired_receipt", &latestExpiredReceipt)
        visitor.object("latest_expired_receipt_info", &latestExpiredReceiptInfo)
        visitor.text("web_order_line_item_id", &webOrderLineItemId)
        visitor.dates(.cancellationDate, &cancellationDate)
    }
}

extension ResponseBodyV1 {
    /// Reads the receipt of a notification, `unified_receipt.latest_receipt`, from its JSON. No other value is kept,
    /// since the rest is not signed and would take memory.
    ///
    /// - Returns: `nil` if the text is not JSON, or has no receipt in base64.
    public static func latestReceipt(in text: [UInt8]) -> [UInt8]? {
        // A text that is not JSON has no receipt.
        let receipt = try? JSONValue.string(at: ["unified_receipt", "latest_receipt"], in: text)
        return (receipt ?? nil).flatMap { Base64.decode($0.utf8) }
    }
}

/// The environment of a version 1 notification, with a different word for production.
public enum NotificationEnvironmentV1: String, CaseIterable, Sendable {
    case production = "PROD"
    case sandbox = "Sandbox"
}

extension ResponseBodyV1 {
    /// `environment` in the vocabulary of all other documents, or `nil` if the environment is missing or unknown.
    public var modernEnvironment: Environment? {
        switch environment?.known {
        case .production: .production
        case .sandbox: .sandbox
        case nil: nil
        }
    }
}

/// The newest purchases and the newest receipt in a version 1 notification: Apple's `unified_receipt`.
public struct UnifiedReceipt: LegacyObject {
    /// `environment`: `Production` or `Sandbox`, as in all other documents.
    public var environment: Open<Environment>?
    /// `latest_receipt`: the newest app receipt as base64.
    public var latestReceipt: String?
    /// `latest_receipt_info`: the newest 100 transactions, without finished consumables.
    public var latestReceiptInfo: [LatestReceiptInfo]?
    /// `pending_renewal_info`: the next renewal of each subscription.
    public var pendingRenewalInfo: [PendingRenewalInfo]?
    /// `status`: 0.
    public var status: Open<VerifyReceiptStatus>?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}

    public mutating func visit<Visitor: LegacyVisitor>(_ visitor: inout Visitor) {
        visitor.word("environment", &environment)
        visitor.text("latest_receipt", &latestReceipt)
        visitor.objects("latest_receipt_info", &latestReceiptInfo)
        visitor.objects("pending_renewal_info", &pendingRenewalInfo)
        visitor.status("status", &status)
    }
}

/// The kind of event: Apple's `notification_type` of version 1.
public enum NotificationTypeV1: String, CaseIterable, Sendable {
    case initialBuy = "INITIAL_BUY"
    case interactiveRenewal = "INTERACTIVE_RENEWAL"
    case didRenew = "DID_RENEW"
    case didRecover = "DID_RECOVER"
    /// The same as `DID_RECOVER`, until 10 March 2021.
    case renewal = "RENEWAL"
    case didFailToRenew = "DID_FAIL_TO_RENEW"
    case didChangeRenewalPref = "DID_CHANGE_RENEWAL_PREF"
    case didChangeRenewalStatus = "DID_CHANGE_RENEWAL_STATUS"
    /// Apple refunded a subscription.
    case cancel = "CANCEL"
    /// Apple refunded a product other than a subscription.
    case refund = "REFUND"
    /// Family Sharing ended.
    case revoke = "REVOKE"
    case consumptionRequest = "CONSUMPTION_REQUEST"
    case priceIncreaseConsent = "PRICE_INCREASE_CONSENT"
}

extension LegacyDateNames {
    fileprivate static let autoRenewStatusChangeDate = Self(
        gmt: "auto_renew_status_change_date", milliseconds: "auto_renew_status_change_date_ms",
        pacific: "auto_renew_status_change_date_pst")
}

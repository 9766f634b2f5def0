// SPDX-License-Identifier: Apache-2.0

/// The decoded app receipt in a verifyReceipt answer: Apple's `responseBody.Receipt`.
///
/// A date here is one property; on the wire it is three members, `…_date`, `…_date_ms` and `…_date_pst`.
public struct Receipt: Hashable, Sendable {
    /// `receipt_type`: such as `Production` or `ProductionSandbox`.
    public var receiptType: String?
    /// `adam_id` and `app_item_id`, which are the same number: the app's Apple ID. 0 in sandbox.
    public var appItemId: Int64 = 0
    /// `bundle_id`.
    public var bundleId: String?
    /// `application_version`: `CFBundleVersion`, on macOS `CFBundleShortVersionString`.
    public var applicationVersion: String?
    /// `download_id`: up to 18 digits. 0 in sandbox.
    public var downloadId: Int64 = 0
    /// `version_external_identifier`: the app version's number at Apple. 0 in sandbox.
    public var versionExternalIdentifier: Int64 = 0
    /// `receipt_creation_date`: when the receipt was signed.
    public var receiptCreationDate: Timestamp?
    /// `request_date`: the clock of whoever answered.
    public var requestDate: Timestamp?
    /// `original_purchase_date`: when the app itself was bought.
    public var originalPurchaseDate: Timestamp?
    /// `original_application_version`: the app's version at that time.
    public var originalApplicationVersion: String?
    /// `preorder_date`. Only for an app that was ordered before its release.
    public var preorderDate: Timestamp?
    /// `expiration_date`. Only in Volume Purchase Program receipts that end.
    public var expirationDate: Timestamp?
    /// `in_app`: the purchases, in the order of the receipt.
    public var inApp: [LatestReceiptInfo] = []

    public init() {}
}

/// One transaction in a verifyReceipt answer: Apple's `responseBody.Latest_receipt_info`, and with fewer members
/// `responseBody.Receipt.In_app`.
///
/// On the wire every value is text.
public struct LatestReceiptInfo: Hashable, Sendable {
    /// `quantity`: 1 to 10.
    public var quantity: Int64?
    /// `product_id`.
    public var productId: String?
    /// `transaction_id`: this purchase, renewal or restore.
    public var transactionId: String?
    /// `original_transaction_id`: the first purchase of the chain.
    public var originalTransactionId: String?
    /// `purchase_date`: of a renewal the start of the period.
    public var purchaseDate: Timestamp?
    /// `original_purchase_date`.
    public var originalPurchaseDate: Timestamp?
    /// `expires_date`. Subscriptions only.
    public var expiresDate: Timestamp?
    /// `cancellation_date`: a refund, a loss through Family Sharing, or an upgrade. Only then.
    public var cancellationDate: Timestamp?
    /// `web_order_line_item_id`: one purchase event on all devices. Subscriptions only.
    public var webOrderLineItemId: String?
    /// `is_trial_period`: whether the period is a free trial.
    public var isTrialPeriod: Bool?
    /// `is_in_intro_offer_period`: whether the period is an introductory offer. Subscriptions only.
    public var isInIntroOfferPeriod: Bool?
    /// `promotional_offer_id`. Only where one was used.
    public var promotionalOfferId: String?

    public init() {}
}

// MARK: - Writing

extension Receipt {
    /// Writes the object with the types, the date texts and the order of the App Store's own answers.
    package func write(to json: inout JSONWriter) {
        json.object { json in
            json.member("receipt_type", receiptType)
            json.member("adam_id", number: appItemId)
            json.member("app_item_id", number: appItemId)
            json.member("bundle_id", bundleId)
            json.member("application_version", applicationVersion)
            json.member("download_id", number: downloadId)
            json.member("version_external_identifier", number: versionExternalIdentifier)
            json.dates(
                "receipt_creation_date", "receipt_creation_date_ms", "receipt_creation_date_pst", receiptCreationDate)
            json.dates("request_date", "request_date_ms", "request_date_pst", requestDate)
            json.dates(
                "original_purchase_date", "original_purchase_date_ms", "original_purchase_date_pst",
                originalPurchaseDate)
            json.member("original_application_version", originalApplicationVersion)
            json.dates("preorder_date", "preorder_date_ms", "preorder_date_pst", preorderDate)
            json.dates("expiration_date", "expiration_date_ms", "expiration_date_pst", expirationDate)
            json.name("in_app")
            json.array(inApp) { $1.write(to: &$0) }
        }
    }
}

extension LatestReceiptInfo {
    package func write(to json: inout JSONWriter) {
        json.object { json in
            json.member("quantity", digits: quantity)
            json.member("product_id", productId)
            json.member("transaction_id", transactionId)
            json.member("original_transaction_id", originalTransactionId)
            json.dates("purchase_date", "purchase_date_ms", "purchase_date_pst", purchaseDate)
            json.dates(
                "original_purchase_date", "original_purchase_date_ms", "original_purchase_date_pst",
                originalPurchaseDate)
            json.dates("expires_date", "expires_date_ms", "expires_date_pst", expiresDate)
            json.dates("cancellation_date", "cancellation_date_ms", "cancellation_date_pst", cancellationDate)
            json.member("web_order_line_item_id", webOrderLineItemId)
            json.member("is_trial_period", text: isTrialPeriod)
            json.member("is_in_intro_offer_period", text: isInIntroOfferPeriod)
            json.member("promotional_offer_id", promotionalOfferId)
        }
    }
}

extension JSONWriter {
    /// Writes a text, where there is one.
    package mutating func member(_ name: StaticString, _ text: String?) {
        guard let text else { return }
        self.name(name)
        string(text)
    }

    /// Writes a number.
    package mutating func member(_ name: StaticString, number: some FixedWidthInteger) {
        self.name(name)
        self.number(number)
    }

    /// Writes a number as text, where there is one.
    package mutating func member(_ name: StaticString, digits number: (some FixedWidthInteger)?) {
        guard let number else { return }
        self.name(name)
        plainString { Self.append(number, to: &$0) }
    }

    /// Writes a boolean as text, where there is one.
    package mutating func member(_ name: StaticString, text bool: Bool?) {
        guard let bool else { return }
        self.name(name)
        string(bool ? "true" : "false")
    }

    /// Writes the three spellings of an instant, where there is one. Names are literals so that none is built per date.
    package mutating func dates(
        _ gmt: StaticString, _ milliseconds: StaticString, _ pacific: StaticString, _ instant: Timestamp?
    ) {
        guard let instant else { return }
        name(gmt)
        plainString { LegacyDate.appendGMT(instant, to: &$0) }
        name(milliseconds)
        plainString { Self.append(instant.milliseconds, to: &$0) }
        name(pacific)
        plainString { LegacyDate.appendPacific(instant, to: &$0) }
    }
}

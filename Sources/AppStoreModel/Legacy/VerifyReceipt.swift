// SPDX-License-Identifier: Apache-2.0

/// A request to verifyReceipt: Apple's `requestBody`.
public struct VerifyReceiptRequest: LegacyObject {
    /// `receipt-data`: the receipt as base64. Always present.
    public var receiptData: String?
    /// `password`: the app's shared secret. Required for receipts with auto-renewable subscriptions.
    @Hidden public var password: String? = nil
    /// `exclude-old-transactions`: whether the answer has only the latest renewal of each subscription.
    public var excludeOldTransactions: Bool?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}

    public mutating func visit<Visitor: LegacyVisitor>(_ visitor: inout Visitor) {
        visitor.text("receipt-data", &receiptData)
        visitor.text("password", &password)
        visitor.bool("exclude-old-transactions", &excludeOldTransactions)
    }
}

extension VerifyReceiptRequest {
    /// The receipt: `receiptData` as bytes. `nil` if `receiptData` is missing or is not base64 in the form accepted by
    /// the App Store.
    public var receipt: [UInt8]? {
        receiptData.flatMap { Base64.decode($0.utf8) }
    }

    /// Reads a request as the App Store does: unknown members are ignored, and of duplicates the last counts.
    ///
    /// - Throws: ``VerifyReceiptStatus``, the status to return for an invalid request.
    public init(parsing body: some Sequence<UInt8>) throws(VerifyReceiptStatus) {
        guard let json = JSONValue(readable: body) else { throw .unreadableRequest }
        guard let data = json["receipt-data"]?.string else { throw .malformedReceipt }
        self.init()
        receiptData = data
        password = json["password"]?.string
        excludeOldTransactions = json["exclude-old-transactions"] == .bool(true)
    }
}

/// An answer of verifyReceipt about an app receipt: Apple's `responseBody`.
public struct VerifyReceiptResponse: LegacyObject {
    /// `receipt`: the content of the receipt in the request. Only with status 0.
    public var receipt: Receipt?
    /// `environment`: `Production` or `Sandbox`. With status 0, and with most errors.
    public var environment: Open<Environment>?
    /// `latest_receipt_info`: the account's purchases in the app, in no particular order. Only with auto-renewable
    /// subscriptions.
    public var latestReceiptInfo: [LatestReceiptInfo]?
    /// `latest_receipt`: the newest app receipt as base64. Only with auto-renewable subscriptions.
    public var latestReceipt: String?
    /// `pending_renewal_info`: the next renewal of each subscription. Only with auto-renewable subscriptions.
    public var pendingRenewalInfo: [PendingRenewalInfo]?
    /// `status`: 0 for a genuine receipt. Always present.
    public var status: Open<VerifyReceiptStatus>?
    /// `is_retryable`, or `is-retryable` in older texts: whether the same request may succeed later. Errors only.
    public var isRetryable: Bool?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}

    /// An answer with the given values. Pass a receipt only with the status `valid`.
    public init(status: VerifyReceiptStatus, environment: Environment? = nil, receipt: Receipt? = nil) {
        self.status = Open(status)
        self.environment = environment.map(Open.init)
        self.receipt = receipt
    }

    public mutating func visit<Visitor: LegacyVisitor>(_ visitor: inout Visitor) {
        visitor.object("receipt", &receipt)
        visitor.word("environment", &environment)
        visitor.objects("latest_receipt_info", &latestReceiptInfo)
        visitor.text("latest_receipt", &latestReceipt)
        visitor.objects("pending_renewal_info", &pendingRenewalInfo)
        visitor.status("status", &status)
        visitor.bool("is_retryable", &isRetryable)
        visitor.alias("is-retryable", &isRetryable)
    }

    /// The answer as JSON, with members in the App Store's order.
    public var json: [UInt8] {
        // A purchase takes about 1,000 bytes.
        json(reservingCapacity: 2048 + 1024 * ((receipt?.inApp?.count ?? 0) + (latestReceiptInfo?.count ?? 0)))
    }
}

extension VerifyReceiptResponse {
    /// Whether the same request may succeed later.
    ///
    /// 21002 means a malformed receipt or a temporary fault, and the answer does not say which. It counts as final
    /// here, but you may retry the request once or twice. For 21100 to 21199 `is_retryable` decides. If `is_retryable`
    /// is missing, the request may be retried.
    public var mayBeRetried: Bool {
        switch status?.rawValue {
        case 21005, 21009: true
        case .some(21100...21199): isRetryable ?? true
        default: false
        }
    }
}

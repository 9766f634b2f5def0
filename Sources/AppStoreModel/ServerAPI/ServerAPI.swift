// SPDX-License-Identifier: Apache-2.0

// Requests and answers of the App Store Server API, in the order of Apple's list of endpoints. A number in brackets is
// the version of the API that introduced the type or property.

/// The answer of Get Transaction Info (1.8): Apple's `TransactionInfoResponse`.
public struct TransactionInfoResponse: Codable, Hashable, Sendable {
    /// A JWS with a ``JWSTransactionDecodedPayload`` as its payload.
    public var signedTransactionInfo: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// A page of Get Transaction History: Apple's `HistoryResponse`. At most 20 transactions.
public struct HistoryResponse: Codable, Hashable, Sendable {
    /// A token for the next page. A request with the token of the last page, even days later, returns the transactions
    /// that are new since then.
    public var revision: String?
    /// Whether there is a next page.
    public var hasMore: Bool?
    /// The bundle id of the app.
    public var bundleId: String?
    /// The app's Apple ID. Not in sandbox.
    public var appAppleId: Int64?
    /// The environment.
    public var environment: Open<Environment>?
    /// JWS strings, each with a ``JWSTransactionDecodedPayload`` as its payload.
    public var signedTransactions: [String]?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// A kind of product as a filter of Get Transaction History: Apple's `productType`.
public enum HistoryProductType: String, CaseIterable, Sendable {
    case autoRenewable = "AUTO_RENEWABLE"
    case nonRenewable = "NON_RENEWABLE"
    case consumable = "CONSUMABLE"
    case nonConsumable = "NON_CONSUMABLE"
}

/// The order of Get Transaction History, by the date of the last change: Apple's `sort`.
public enum HistorySort: String, CaseIterable, Sendable {
    case ascending = "ASCENDING"
    case descending = "DESCENDING"
}

/// The answer of Get All Subscription Statuses: Apple's `StatusResponse`. Covers all subscriptions of the customer.
public struct StatusResponse: Codable, Hashable, Sendable {
    /// The environment.
    public var environment: Open<Environment>?
    /// The bundle id of the app.
    public var bundleId: String?
    /// The app's Apple ID. Not in sandbox.
    public var appAppleId: Int64?
    /// An element for each subscription group.
    public var data: [SubscriptionGroupIdentifierItem]?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// A customer's subscriptions in a subscription group: Apple's `SubscriptionGroupIdentifierItem`.
public struct SubscriptionGroupIdentifierItem: Codable, Hashable, Sendable {
    /// The id of the group: a string of digits.
    public var subscriptionGroupIdentifier: String?
    /// An element for each subscription, including ended subscriptions.
    public var lastTransactions: [LastTransactionsItem]?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The newest transaction and renewal info of a subscription: Apple's `lastTransactionsItem`.
public struct LastTransactionsItem: Codable, Hashable, Sendable {
    /// The subscription's state. The state is not signed.
    public var status: Open<SubscriptionStatus>?
    /// The id of the subscription: the transaction id of its first purchase, a string of digits.
    public var originalTransactionId: String?
    /// A JWS with a ``JWSTransactionDecodedPayload`` as its payload.
    public var signedTransactionInfo: String?
    /// A JWS with a ``JWSRenewalInfoDecodedPayload`` as its payload.
    public var signedRenewalInfo: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The answer of Get App Transaction Info (1.17): Apple's `AppTransactionInfoResponse`.
public struct AppTransactionInfoResponse: Codable, Hashable, Sendable {
    /// A JWS with an ``AppTransaction`` as its payload.
    public var signedAppTransactionInfo: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The body of Set App Account Token (1.16): Apple's `UpdateAppAccountTokenRequest`.
public struct UpdateAppAccountTokenRequest: Codable, Hashable, Sendable {
    /// The customer's new UUID.
    public var appAccountToken: String
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(appAccountToken: String) {
        self.appAccountToken = appAccountToken
    }
}

/// The answer of Look Up Order ID (1.1): Apple's `OrderLookupResponse`. Production only.
public struct OrderLookupResponse: Codable, Hashable, Sendable {
    /// Apple's `OrderLookupStatus`: 0 if the order id is valid.
    public var status: Int?
    /// JWS strings, each with a ``JWSTransactionDecodedPayload`` as its payload.
    public var signedTransactions: [String]?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// A page of Get Refund History (1.6): Apple's `RefundHistoryResponse`. Granted refunds only.
public struct RefundHistoryResponse: Codable, Hashable, Sendable {
    /// JWS strings, each with a ``JWSTransactionDecodedPayload`` as its payload.
    public var signedTransactions: [String]?
    /// A token for the next page. A request with the token of the last page, even days later, returns the refunds that
    /// are new since then.
    public var revision: String?
    /// Whether there is a next page.
    public var hasMore: Bool?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

// MARK: - Renewal dates

/// The body of Extend a Subscription Renewal Date (1.1): Apple's `ExtendRenewalDateRequest`.
public struct ExtendRenewalDateRequest: Codable, Hashable, Sendable {
    /// The number of days, 1 to 90.
    public var extendByDays: Int
    /// The reason for the extension.
    public var extendReasonCode: Open<ExtendReasonCode>
    /// The id of the request. At most 128 characters. Reuse the id only to repeat the request.
    public var requestIdentifier: String
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(extendByDays: Int, extendReasonCode: Open<ExtendReasonCode>, requestIdentifier: String) {
        self.extendByDays = extendByDays
        self.extendReasonCode = extendReasonCode
        self.requestIdentifier = requestIdentifier
    }
}

/// The answer of Extend a Subscription Renewal Date: Apple's `ExtendRenewalDateResponse`.
public struct ExtendRenewalDateResponse: Codable, Hashable, Sendable {
    /// The id of the subscription: the transaction id of its first purchase, a string of digits.
    public var originalTransactionId: String?
    /// The id of the extended purchase event: a string of digits.
    public var webOrderLineItemId: String?
    /// Whether the renewal date was extended.
    public var success: Bool?
    /// The new renewal date.
    public var effectiveDate: Timestamp?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The body of Extend Subscription Renewal Dates for All Active Subscribers (1.7): Apple's
/// `MassExtendRenewalDateRequest`.
public struct MassExtendRenewalDateRequest: Codable, Hashable, Sendable {
    /// The number of days, 1 to 90.
    public var extendByDays: Int
    /// The reason for the extension.
    public var extendReasonCode: Open<ExtendReasonCode>
    /// A UUID. Reuse the UUID only to repeat the request.
    public var requestIdentifier: String
    /// The countries of the storefronts, ISO 3166-1 alpha-3. Absent for all storefronts, never empty.
    public var storefrontCountryCodes: [String]?
    /// The product.
    public var productId: String
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(
        extendByDays: Int, extendReasonCode: Open<ExtendReasonCode>, requestIdentifier: String, productId: String
    ) {
        self.extendByDays = extendByDays
        self.extendReasonCode = extendReasonCode
        self.requestIdentifier = requestIdentifier
        self.productId = productId
    }
}

/// The answer of Extend Subscription Renewal Dates for All Active Subscribers: Apple's `MassExtendRenewalDateResponse`.
public struct MassExtendRenewalDateResponse: Codable, Hashable, Sendable {
    /// The UUID of the request.
    public var requestIdentifier: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The progress of a mass extension of renewal dates (1.7): Apple's `MassExtendRenewalDateStatusResponse`.
public struct MassExtendRenewalDateStatusResponse: Codable, Hashable, Sendable {
    /// The UUID of the request.
    public var requestIdentifier: String?
    /// Whether the request is complete.
    public var complete: Bool?
    /// The time of completion. Only if the request is complete.
    public var completeDate: Timestamp?
    /// The number of extended renewal dates. Only if the request is complete.
    public var succeededCount: Int64?
    /// The number of failures. Only if the request is complete.
    public var failedCount: Int64?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The reason for an extension of a renewal date: Apple's `extendReasonCode`.
public enum ExtendReasonCode: Int, CaseIterable, Sendable {
    case undeclared = 0
    case customerSatisfaction = 1
    case other = 2
    /// A service issue or outage.
    case serviceIssue = 3
}

// MARK: - Notifications

/// The body of Get Notification History (1.5): Apple's `NotificationHistoryRequest`.
public struct NotificationHistoryRequest: Codable, Hashable, Sendable {
    /// The start of the period: within the last 180 days, in the sandbox within the last 30 days.
    public var startDate: Timestamp
    /// The end of the period, after `startDate`.
    public var endDate: Timestamp
    /// The type of the notifications to return. Not together with `transactionId`.
    public var notificationType: Open<NotificationTypeV2>?
    /// The subtype of the notifications to return. Only with `notificationType`.
    public var notificationSubtype: Open<NotificationSubtype>?
    /// A transaction id of a customer: a string of digits. Only this customer's notifications are returned.
    public var transactionId: String?
    /// Whether to return only notifications that have not reached the server (1.8).
    public var onlyFailures: Bool?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(startDate: Timestamp, endDate: Timestamp) {
        self.startDate = startDate
        self.endDate = endDate
    }
}

/// A page of Get Notification History: Apple's `NotificationHistoryResponse`. At most 20 notifications.
public struct NotificationHistoryResponse: Codable, Hashable, Sendable {
    /// A token for the next page. The token expires.
    public var paginationToken: String?
    /// Whether there is a next page.
    public var hasMore: Bool?
    /// The notifications.
    public var notificationHistory: [NotificationHistoryResponseItem]?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// A notification and its delivery attempts: Apple's `notificationHistoryResponseItem`.
public struct NotificationHistoryResponseItem: Codable, Hashable, Sendable {
    /// A JWS with a ``ResponseBodyV2DecodedPayload`` as its payload.
    public var signedPayload: String?
    /// The attempts to send the notification, at most six (1.8).
    public var sendAttempts: [SendAttemptItem]?
    /// The result of the first attempt. Only in answers of API versions before 1.8.
    public var firstSendAttemptResult: Open<SendAttemptResult>?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// An attempt by Apple to send a notification: Apple's `sendAttemptItem`.
public struct SendAttemptItem: Codable, Hashable, Sendable {
    /// The time of the attempt.
    public var attemptDate: Timestamp?
    /// The result of the attempt.
    public var sendAttemptResult: Open<SendAttemptResult>?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The result of an attempt to send a notification: Apple's `sendAttemptResult`.
public enum SendAttemptResult: String, CaseIterable, Sendable {
    case success = "SUCCESS"
    case timedOut = "TIMED_OUT"
    case tlsIssue = "TLS_ISSUE"
    case circularRedirect = "CIRCULAR_REDIRECT"
    case noResponse = "NO_RESPONSE"
    case socketIssue = "SOCKET_ISSUE"
    case unsupportedCharset = "UNSUPPORTED_CHARSET"
    case invalidResponse = "INVALID_RESPONSE"
    case prematureClose = "PREMATURE_CLOSE"
    case unsuccessfulHTTPResponseCode = "UNSUCCESSFUL_HTTP_RESPONSE_CODE"
    case other = "OTHER"
}

/// The answer of Request a Test Notification (1.5): Apple's `SendTestNotificationResponse`.
public struct SendTestNotificationResponse: Codable, Hashable, Sendable {
    /// A token for the notification, valid for six months.
    public var testNotificationToken: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The answer of Get Test Notification Status (1.5): Apple's `CheckTestNotificationResponse`.
public struct CheckTestNotificationResponse: Codable, Hashable, Sendable {
    /// A JWS with a ``ResponseBodyV2DecodedPayload`` as its payload.
    public var signedPayload: String?
    /// The attempts to send the notification.
    public var sendAttempts: [SendAttemptItem]?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

// MARK: - Groups and seats (1.22 and 1.23, sandbox so far)

/// The answer of Get Customer Groups.
public struct CustomerGroupsResponse: Codable, Hashable, Sendable {
    /// The groups.
    public var groups: [CustomerGroup]?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// A group of customers. Membership alone gives no access.
public struct CustomerGroup: Codable, Hashable, Sendable {
    /// The id of the group: a string of digits.
    public var groupId: String?
    /// The kind of group.
    public var groupType: Open<CustomerGroupType>?
    /// The customer's roles. Organizations only.
    public var roles: [CustomerGroupRole]?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The kind of a group of customers.
public enum CustomerGroupType: String, CaseIterable, Sendable {
    case organization = "ORGANIZATION"
    case consumer = "CONSUMER"
}

/// A customer's role in an organization for a product.
public struct CustomerGroupRole: Codable, Hashable, Sendable {
    /// The product.
    public var productId: String?
    /// The role, such as `ADMIN` or `NONE`.
    public var role: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// A page of Get Group Members.
public struct GroupMembersResponse: Codable, Hashable, Sendable {
    /// The members of the group.
    public var members: [GroupMember]?
    /// A token for the next page.
    public var paginationToken: String?
    /// Whether there is a next page.
    public var hasMore: Bool?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// A member of a group.
public struct GroupMember: Codable, Hashable, Sendable {
    /// The identifier of the member's download of the app, a string of digits.
    public var appTransactionId: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// A request for a seat of a subscription.
public struct SeatClaimRequest: Codable, Hashable, Sendable {
    /// A UUID. Reuse the UUID only to repeat the request.
    public var requestIdentifier: String
    /// The app transaction id of the seat's customer: a string of digits.
    public var appTransactionId: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(requestIdentifier: String) {
        self.requestIdentifier = requestIdentifier
    }
}

/// A claimed seat.
public struct SeatClaimResponse: Codable, Hashable, Sendable {
    /// The seat's UUID.
    public var seatClaimId: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The seats of a subscription.
public struct SeatsResponse: Codable, Hashable, Sendable {
    /// The number of seats.
    public var totalSeatCount: Int64?
    /// The number of free seats.
    public var availableSeatCount: Int64?
    /// The UUIDs of the assigned seats.
    public var assignedSeatClaimIds: [String]?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// A request to assign a seat to a member.
public struct SeatAssociationRequest: Codable, Hashable, Sendable {
    /// The app transaction id of the member: a string of digits.
    public var appTransactionId: String
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(appTransactionId: String) {
        self.appTransactionId = appTransactionId
    }
}

// SPDX-License-Identifier: Apache-2.0

/// A server's report to Apple about a purchase whose customer requests a refund: Apple's `ConsumptionRequest`.
///
/// A number in brackets in this file is the version of the App Store Server API that introduced the type or property.
/// This type belongs to version 1.19.
public struct ConsumptionRequest: Codable, Hashable, Sendable {
    /// Whether the customer consented to the report. Send no report without consent.
    public var customerConsented: Bool
    /// Whether the purchase was delivered and worked.
    public var deliveryStatus: Open<DeliveryStatus>
    /// Whether the customer had a trial or a sample.
    public var sampleContentProvided: Bool
    /// The share of the purchase that was used, in thousandths of a percent, 0 to 100000. Not for auto-renewable
    /// subscriptions; 0 if the purchase was not delivered.
    public var consumptionPercentage: Int?
    /// The decision preferred by the developer.
    public var refundPreference: Open<RefundPreference>?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(customerConsented: Bool, deliveryStatus: Open<DeliveryStatus>, sampleContentProvided: Bool) {
        self.customerConsented = customerConsented
        self.deliveryStatus = deliveryStatus
        self.sampleContentProvided = sampleContentProvided
    }
}

/// Whether a purchase was delivered and worked: Apple's `deliveryStatus` (1.19).
public enum DeliveryStatus: String, CaseIterable, Sendable {
    case delivered = "DELIVERED"
    case undeliveredQualityIssue = "UNDELIVERED_QUALITY_ISSUE"
    case undeliveredWrongItem = "UNDELIVERED_WRONG_ITEM"
    case undeliveredServerOutage = "UNDELIVERED_SERVER_OUTAGE"
    case undeliveredOther = "UNDELIVERED_OTHER"
}

/// The decision preferred by the developer: Apple's `refundPreference` (1.19).
public enum RefundPreference: String, CaseIterable, Sendable {
    case decline = "DECLINE"
    case grantFull = "GRANT_FULL"
    /// Only with a `consumptionPercentage` between 0 and 100000, except for auto-renewable subscriptions.
    case grantProrated = "GRANT_PRORATED"
}

// MARK: - Version 1

/// The report of the API versions before 1.19: Apple's `ConsumptionRequestV1`. Advanced Commerce API purchases still
/// use it. The value 0 means “undeclared”, except in `deliveryStatus`.
public struct ConsumptionRequestV1: Codable, Hashable, Sendable {
    /// Whether the customer consented to the report. Send no report without consent.
    public var customerConsented: Bool
    /// The share of the purchase that was used.
    public var consumptionStatus: Open<ConsumptionStatus>
    /// The platform on which the purchase was used.
    public var platform: Open<ConsumptionPlatform>
    /// Whether the customer had a trial or a sample.
    public var sampleContentProvided: Bool
    /// Whether the purchase was delivered and worked.
    public var deliveryStatus: Open<DeliveryStatusV1>
    /// The customer's UUID, or an empty string.
    public var appAccountToken: String
    /// The age of the customer's account.
    public var accountTenure: Open<AccountTenure>
    /// The duration of the customer's use of the app.
    public var playTime: Open<PlayTime>
    /// The total of the customer's refunds, in US dollars.
    public var lifetimeDollarsRefunded: Open<LifetimeDollars>
    /// The total of the customer's payments, in US dollars.
    public var lifetimeDollarsPurchased: Open<LifetimeDollars>
    /// The state of the customer's account.
    public var userStatus: Open<UserStatus>
    /// The decision preferred by the developer (1.11).
    public var refundPreference: Open<RefundPreferenceV1>?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(
        customerConsented: Bool, consumptionStatus: Open<ConsumptionStatus>, platform: Open<ConsumptionPlatform>,
        sampleContentProvided: Bool, deliveryStatus: Open<DeliveryStatusV1>, appAccountToken: String,
        accountTenure: Open<AccountTenure>, playTime: Open<PlayTime>, lifetimeDollarsRefunded: Open<LifetimeDollars>,
        lifetimeDollarsPurchased: Open<LifetimeDollars>, userStatus: Open<UserStatus>
    ) {
        self.customerConsented = customerConsented
        self.consumptionStatus = consumptionStatus
        self.platform = platform
        self.sampleContentProvided = sampleContentProvided
        self.deliveryStatus = deliveryStatus
        self.appAccountToken = appAccountToken
        self.accountTenure = accountTenure
        self.playTime = playTime
        self.lifetimeDollarsRefunded = lifetimeDollarsRefunded
        self.lifetimeDollarsPurchased = lifetimeDollarsPurchased
        self.userStatus = userStatus
    }
}

/// The share of the purchase that was used: Apple's `consumptionStatus`.
public enum ConsumptionStatus: Int, CaseIterable, Sendable {
    case undeclared = 0
    case notConsumed = 1
    case partiallyConsumed = 2
    case fullyConsumed = 3
}

/// The platform on which the purchase was used: Apple's `platform`.
public enum ConsumptionPlatform: Int, CaseIterable, Sendable {
    case undeclared = 0
    case apple = 1
    case nonApple = 2
}

/// Whether the purchase was delivered and worked: Apple's `deliveryStatus` before 1.19.
public enum DeliveryStatusV1: Int, CaseIterable, Sendable {
    case deliveredAndWorking = 0
    case qualityIssue = 1
    case wrongItem = 2
    case serverOutage = 3
    /// The game's own currency changed.
    case currencyChange = 4
    case other = 5
}

/// The age of the customer's account: Apple's `accountTenure`.
public enum AccountTenure: Int, CaseIterable, Sendable {
    case undeclared = 0
    case upTo3Days = 1
    case upTo10Days = 2
    case upTo30Days = 3
    case upTo90Days = 4
    case upTo180Days = 5
    case upTo365Days = 6
    case moreThan365Days = 7
}

/// The duration of the customer's use of the app: Apple's `playTime`.
public enum PlayTime: Int, CaseIterable, Sendable {
    case undeclared = 0
    case upTo5Minutes = 1
    case upTo60Minutes = 2
    case upTo6Hours = 3
    case upTo24Hours = 4
    case upTo4Days = 5
    case upTo16Days = 6
    case moreThan16Days = 7
}

/// The total of the customer's payments or refunds, in US dollars: Apple's `lifetimeDollarsPurchased` and
/// `lifetimeDollarsRefunded`.
public enum LifetimeDollars: Int, CaseIterable, Sendable {
    case undeclared = 0
    case zero = 1
    case below50 = 2
    case below100 = 3
    case below500 = 4
    case below1000 = 5
    case below2000 = 6
    case atLeast2000 = 7
}

/// The state of the customer's account: Apple's `userStatus`.
public enum UserStatus: Int, CaseIterable, Sendable {
    case undeclared = 0
    case active = 1
    case suspended = 2
    case terminated = 3
    case limitedAccess = 4
}

/// The decision preferred by the developer: Apple's `refundPreference` before 1.19.
public enum RefundPreferenceV1: Int, CaseIterable, Sendable {
    case undeclared = 0
    case preferGrant = 1
    case preferDecline = 2
    case noPreference = 3
}

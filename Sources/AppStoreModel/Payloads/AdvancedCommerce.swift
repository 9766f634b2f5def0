// SPDX-License-Identifier: Apache-2.0

/// The parts of an Advanced Commerce API purchase: `advancedCommerceInfo` of a transaction (1.14).
///
/// A number in brackets in this file is the version of the App Store Server API that introduced the type or property.
public struct AdvancedCommerceTransactionInfo: Codable, Hashable, Sendable {
    /// The name and description shown to the customer.
    public var descriptors: AdvancedCommerceDescriptors?
    /// The estimated tax in milliunits of the transaction's currency.
    public var estimatedTax: Int64?
    /// The items.
    public var items: [AdvancedCommerceTransactionItem]?
    /// The subscription's period: ISO 8601 duration, `P1W` to `P1Y`.
    public var period: String?
    /// The UUID of the app's own request.
    public var requestReferenceId: String?
    /// Apple's tax category of the product.
    public var taxCode: String?
    /// The price without tax in milliunits of the transaction's currency.
    public var taxExclusivePrice: Int64?
    /// The tax rate: a decimal number as text, such as `0.15`.
    public var taxRate: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// A name and a description for customers: Apple's `Descriptors`.
public struct AdvancedCommerceDescriptors: Codable, Hashable, Sendable {
    /// The description shown to the customer.
    public var description: String?
    /// The name shown to the customer.
    public var displayName: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// An item of an Advanced Commerce API transaction.
public struct AdvancedCommerceTransactionItem: Codable, Hashable, Sendable {
    /// The item's SKU.
    public var SKU: String?
    /// The description shown to the customer.
    public var description: String?
    /// The name shown to the customer.
    public var displayName: String?
    /// The discount on the item; `nil` if there is none.
    public var offer: AdvancedCommerceOffer?
    /// The price in milliunits of the transaction's currency.
    public var price: Int64?
    /// The refunds of the item; `nil` if there are none.
    public var refunds: [AdvancedCommerceRefund]?
    /// The time when the item was revoked; `nil` if it was not.
    public var revocationDate: Timestamp?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// A discount on an item: Apple's `Offer`.
public struct AdvancedCommerceOffer: Codable, Hashable, Sendable {
    /// The duration of a discounted period: ISO 8601.
    public var period: String?
    /// The number of discounted periods, 1 to 12.
    public var periodCount: Int?
    /// The discounted price in milliunits of the currency of the enclosing transaction, renewal info or request.
    public var price: Int64?
    /// The reason for the discount.
    public var reason: Open<AdvancedCommerceOfferReason>?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The reason for a discount.
public enum AdvancedCommerceOfferReason: String, CaseIterable, Sendable {
    case acquisition = "ACQUISITION"
    case winBack = "WIN_BACK"
    case retention = "RETENTION"
}

/// A refund of an item: Apple's `Refund`.
public struct AdvancedCommerceRefund: Codable, Hashable, Sendable {
    /// The refunded amount in milliunits of the transaction's currency.
    public var refundAmount: Int64?
    /// The time of the refund.
    public var refundDate: Timestamp?
    /// The reason for the refund.
    public var refundReason: Open<AdvancedCommerceRefundReason>?
    /// Whether the refund is full, prorated or of a custom amount.
    public var refundType: Open<AdvancedCommerceRefundType>?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The reason for a refund of an item.
public enum AdvancedCommerceRefundReason: String, CaseIterable, Sendable {
    case unintendedPurchase = "UNINTENDED_PURCHASE"
    case fulfillmentIssue = "FULFILLMENT_ISSUE"
    case unsatisfiedWithPurchase = "UNSATISFIED_WITH_PURCHASE"
    case legal = "LEGAL"
    case other = "OTHER"
    case modifyItemsRefund = "MODIFY_ITEMS_REFUND"
    /// Sandbox and TestFlight only.
    case simulateRefundDecline = "SIMULATE_REFUND_DECLINE"
}

/// The extent of an item's refund.
public enum AdvancedCommerceRefundType: String, CaseIterable, Sendable {
    case full = "FULL"
    case prorated = "PRORATED"
    case custom = "CUSTOM"
}

// MARK: - Renewal

/// The parts of the next renewal of an Advanced Commerce API subscription: `advancedCommerceInfo` of renewal info
/// (1.14).
public struct AdvancedCommerceRenewalInfo: Codable, Hashable, Sendable {
    /// An opaque string from Apple. Copy it into later requests.
    public var consistencyToken: String?
    /// The name and description shown to the customer.
    public var descriptors: AdvancedCommerceDescriptors?
    /// The items.
    public var items: [AdvancedCommerceRenewalItem]?
    /// The subscription's period: ISO 8601 duration, `P1W` to `P1Y`.
    public var period: String?
    /// The UUID of the app's own request.
    public var requestReferenceId: String?
    /// Apple's tax category of the product.
    public var taxCode: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// An item of the next renewal.
public struct AdvancedCommerceRenewalItem: Codable, Hashable, Sendable {
    /// The item's SKU.
    public var SKU: String?
    /// The description shown to the customer.
    public var description: String?
    /// The name shown to the customer.
    public var displayName: String?
    /// The discount on the item; `nil` if there is none.
    public var offer: AdvancedCommerceOffer?
    /// The price in milliunits of the renewal info's currency.
    public var price: Int64?
    /// The pending price increase (1.19); `nil` if there is none.
    public var priceIncreaseInfo: AdvancedCommercePriceIncreaseInfo?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// A price increase of an item (1.19).
public struct AdvancedCommercePriceIncreaseInfo: Codable, Hashable, Sendable {
    /// The SKUs of items whose prices rise with the price of this item.
    public var dependentSKUs: [String]?
    /// The new price in milliunits of the renewal info's currency.
    public var price: Int64?
    /// The state of the price increase.
    public var status: Open<AdvancedCommercePriceIncreaseStatus>?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The state of an item's price increase.
public enum AdvancedCommercePriceIncreaseStatus: String, CaseIterable, Sendable {
    case scheduled = "SCHEDULED"
    case pending = "PENDING"
    case accepted = "ACCEPTED"
}

// SPDX-License-Identifier: Apache-2.0

// Requests of the Advanced Commerce API, as of version 1.2. A number in brackets is the version of this API that
// introduced the type or property. Server requests are sent by the app's server to Apple, by POST to
// /advancedCommerce/v1/…. In-app requests are signed by the server, and passed to StoreKit by the app. Prices are in
// milliunits, but may have no more decimals than their currency.

/// The identity of a request: Apple's `RequestInfo`.
public struct AdvancedCommerceRequestInfo: Codable, Hashable, Sendable {
    /// A UUID. Reuse it only to repeat a request that was not answered.
    public var requestReferenceId: String
    /// The customer's UUID.
    public var appAccountToken: String?
    /// The token copied from the newest renewal info.
    public var consistencyToken: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(requestReferenceId: String) {
        self.requestReferenceId = requestReferenceId
    }
}

/// The time when a change takes effect.
public enum AdvancedCommerceEffective: String, CaseIterable, Sendable {
    case immediately = "IMMEDIATELY"
    case nextBillCycle = "NEXT_BILL_CYCLE"
}

/// The reason for a change of an item.
public enum AdvancedCommerceChangeReason: String, CaseIterable, Sendable {
    case upgrade = "UPGRADE"
    case downgrade = "DOWNGRADE"
    case applyOffer = "APPLY_OFFER"
}

// MARK: - Server requests

/// Turns auto-renewal off: `subscription/cancel`. Service continues to the end of the period.
public struct AdvancedCommerceSubscriptionCancelRequest: Codable, Hashable, Sendable {
    /// The identity of the request.
    public var requestInfo: AdvancedCommerceRequestInfo
    /// The storefront's country: ISO 3166-1 alpha-3.
    public var storefront: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(requestInfo: AdvancedCommerceRequestInfo) {
        self.requestInfo = requestInfo
    }
}

/// Changes names, descriptions, SKUs or the tax code: `subscription/changeMetadata` (1.1).
public struct AdvancedCommerceSubscriptionChangeMetadataRequest: Codable, Hashable, Sendable {
    /// The identity of the request.
    public var requestInfo: AdvancedCommerceRequestInfo
    /// The new name and description.
    public var descriptors: AdvancedCommerceSubscriptionChangeMetadataDescriptors?
    /// The items to change.
    public var items: [AdvancedCommerceSubscriptionChangeMetadataItem]?
    /// Apple's tax category of the product.
    public var taxCode: String?
    /// The storefront's country: ISO 3166-1 alpha-3.
    public var storefront: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(requestInfo: AdvancedCommerceRequestInfo) {
        self.requestInfo = requestInfo
    }
}

/// A new name or description of a subscription.
public struct AdvancedCommerceSubscriptionChangeMetadataDescriptors: Codable, Hashable, Sendable {
    /// The time when the change takes effect.
    public var effective: Open<AdvancedCommerceEffective>
    /// The new description. At most 45 characters.
    public var description: String?
    /// The new name. At most 30 characters.
    public var displayName: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(effective: Open<AdvancedCommerceEffective>) {
        self.effective = effective
    }
}

/// A new name, description or SKU of an item.
public struct AdvancedCommerceSubscriptionChangeMetadataItem: Codable, Hashable, Sendable {
    /// The SKU of the item before the change.
    public var currentSKU: String
    /// The time when the change takes effect.
    public var effective: Open<AdvancedCommerceEffective>
    /// The new description. At most 45 characters.
    public var description: String?
    /// The new name. At most 30 characters.
    public var displayName: String?
    /// The new SKU. At most 128 characters.
    public var SKU: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(currentSKU: String, effective: Open<AdvancedCommerceEffective>) {
        self.currentSKU = currentSKU
        self.effective = effective
    }
}

/// Changes prices: `subscription/changePrice`. Send the request at least 24 hours before the renewal.
public struct AdvancedCommerceSubscriptionPriceChangeRequest: Codable, Hashable, Sendable {
    /// The identity of the request.
    public var requestInfo: AdvancedCommerceRequestInfo
    /// The items with new prices.
    public var items: [AdvancedCommerceSubscriptionPriceChangeItem]
    /// ISO 4217 code of the prices.
    public var currency: String?
    /// The storefront's country: ISO 3166-1 alpha-3.
    public var storefront: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(requestInfo: AdvancedCommerceRequestInfo, items: [AdvancedCommerceSubscriptionPriceChangeItem]) {
        self.requestInfo = requestInfo
        self.items = items
    }
}

/// The new price of an item.
public struct AdvancedCommerceSubscriptionPriceChangeItem: Codable, Hashable, Sendable {
    /// The item's SKU. At most 128 characters.
    public var SKU: String
    /// The new price in milliunits of the currency.
    public var price: Int64
    /// The SKUs of items whose prices rise with the price of this item (1.2).
    public var dependentSKUs: [String]?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(SKU: String, price: Int64) {
        self.SKU = SKU
        self.price = price
    }
}

/// Moves a subscription from App Store Connect to the Advanced Commerce API: `subscription/migrate` (1.1).
public struct AdvancedCommerceSubscriptionMigrateRequest: Codable, Hashable, Sendable {
    /// The identity of the request.
    public var requestInfo: AdvancedCommerceRequestInfo
    /// The name and description shown to the customer.
    public var descriptors: AdvancedCommerceDescriptors
    /// The items of the migrated subscription.
    public var items: [AdvancedCommerceSubscriptionMigrateItem]
    /// The items of the next period, if a downgrade or crossgrade is pending.
    public var renewalItems: [AdvancedCommerceSubscriptionMigrateItem]?
    /// The generic product that replaces the subscription's product.
    public var targetProductId: String
    /// Apple's tax category of the product.
    public var taxCode: String
    /// The storefront's country: ISO 3166-1 alpha-3.
    public var storefront: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(
        requestInfo: AdvancedCommerceRequestInfo, descriptors: AdvancedCommerceDescriptors,
        items: [AdvancedCommerceSubscriptionMigrateItem], targetProductId: String, taxCode: String
    ) {
        self.requestInfo = requestInfo
        self.descriptors = descriptors
        self.items = items
        self.targetProductId = targetProductId
        self.taxCode = taxCode
    }
}

/// An item of a migrated subscription.
public struct AdvancedCommerceSubscriptionMigrateItem: Codable, Hashable, Sendable {
    /// The item's SKU. At most 128 characters.
    public var SKU: String
    /// The description shown to the customer. At most 45 characters.
    public var description: String
    /// The name shown to the customer. At most 30 characters.
    public var displayName: String
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(SKU: String, description: String, displayName: String) {
        self.SKU = SKU
        self.description = description
        self.displayName = displayName
    }
}

/// Ends a subscription at once: `subscription/revoke` (1.1).
public struct AdvancedCommerceSubscriptionRevokeRequest: Codable, Hashable, Sendable {
    /// The identity of the request.
    public var requestInfo: AdvancedCommerceRequestInfo
    /// The reason for the refund.
    public var refundReason: Open<AdvancedCommerceRefundReason>
    /// Whether Apple asks the server for consumption information before the decision on the refund.
    public var refundRiskingPreference: Bool
    /// Whether the refund is to be full or prorated.
    public var refundType: Open<AdvancedCommerceRefundType>
    /// The storefront's country: ISO 3166-1 alpha-3.
    public var storefront: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(
        requestInfo: AdvancedCommerceRequestInfo, refundReason: Open<AdvancedCommerceRefundReason>,
        refundRiskingPreference: Bool, refundType: Open<AdvancedCommerceRefundType>
    ) {
        self.requestInfo = requestInfo
        self.refundReason = refundReason
        self.refundRiskingPreference = refundRiskingPreference
        self.refundType = refundType
    }
}

/// Requests a refund: `transaction/requestRefund` (1.1).
public struct AdvancedCommerceRequestRefundRequest: Codable, Hashable, Sendable {
    /// The identity of the request.
    public var requestInfo: AdvancedCommerceRequestInfo
    /// The items to refund.
    public var items: [AdvancedCommerceRequestRefundItem]
    /// Whether Apple asks the server for consumption information before the decision on the refund.
    public var refundRiskingPreference: Bool
    /// ISO 4217 code of the prices.
    public var currency: String?
    /// The storefront's country: ISO 3166-1 alpha-3.
    public var storefront: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(
        requestInfo: AdvancedCommerceRequestInfo, items: [AdvancedCommerceRequestRefundItem],
        refundRiskingPreference: Bool
    ) {
        self.requestInfo = requestInfo
        self.items = items
        self.refundRiskingPreference = refundRiskingPreference
    }
}

/// An item to refund.
public struct AdvancedCommerceRequestRefundItem: Codable, Hashable, Sendable {
    /// The item's SKU. At most 128 characters.
    public var SKU: String
    /// The reason for the refund.
    public var refundReason: Open<AdvancedCommerceRefundReason>
    /// Whether the refund is to be full, prorated or of a custom amount.
    public var refundType: Open<AdvancedCommerceRefundType>
    /// Whether the customer loses the item.
    public var revoke: Bool
    /// The amount in milliunits of the currency. Only with the refund type `CUSTOM`.
    public var refundAmount: Int64?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(
        SKU: String, refundReason: Open<AdvancedCommerceRefundReason>, refundType: Open<AdvancedCommerceRefundType>,
        revoke: Bool
    ) {
        self.SKU = SKU
        self.refundReason = refundReason
        self.refundType = refundType
        self.revoke = revoke
    }
}

/// The answer to a request about a subscription.
public struct AdvancedCommerceSubscriptionResponse: Codable, Hashable, Sendable {
    /// A JWS with a ``JWSRenewalInfoDecodedPayload`` as its payload.
    public var signedRenewalInfo: String?
    /// A JWS with a ``JWSTransactionDecodedPayload`` as its payload.
    public var signedTransactionInfo: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The answer to a request for a refund.
public struct AdvancedCommerceRequestRefundResponse: Codable, Hashable, Sendable {
    /// A JWS with a ``JWSTransactionDecodedPayload`` as its payload.
    public var signedTransactionInfo: String?
    /// A JWS with a ``JWSRenewalInfoDecodedPayload`` as its payload. Subscriptions only.
    public var signedRenewalInfo: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

// MARK: - In-app requests

// `operation` and `version` are ordinary properties, so that a request in memory has all signed members.

/// A one-time purchase.
public struct AdvancedCommerceOneTimeChargeCreateRequest: Codable, Hashable, Sendable {
    /// `CREATE_ONE_TIME_CHARGE`.
    public var operation: String?
    /// `1`.
    public var version: String?
    /// ISO 4217 code of the prices.
    public var currency: String
    /// The item to buy.
    public var item: AdvancedCommerceOneTimeChargeItem
    /// The identity of the request.
    public var requestInfo: AdvancedCommerceRequestInfo
    /// Apple's tax category of the product.
    public var taxCode: String
    /// The storefront's country: ISO 3166-1 alpha-3.
    public var storefront: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(
        currency: String, item: AdvancedCommerceOneTimeChargeItem, requestInfo: AdvancedCommerceRequestInfo,
        taxCode: String
    ) {
        operation = "CREATE_ONE_TIME_CHARGE"
        version = "1"
        self.currency = currency
        self.item = item
        self.requestInfo = requestInfo
        self.taxCode = taxCode
    }
}

/// The item of a one-time purchase.
public struct AdvancedCommerceOneTimeChargeItem: Codable, Hashable, Sendable {
    /// The description shown to the customer. At most 45 characters.
    public var description: String
    /// The name shown to the customer. At most 30 characters.
    public var displayName: String
    /// The item's SKU. At most 128 characters.
    public var SKU: String
    /// The price in milliunits of the currency.
    public var price: Int64
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(description: String, displayName: String, SKU: String, price: Int64) {
        self.description = description
        self.displayName = displayName
        self.SKU = SKU
        self.price = price
    }
}

/// A new subscription.
public struct AdvancedCommerceSubscriptionCreateRequest: Codable, Hashable, Sendable {
    /// `CREATE_SUBSCRIPTION`.
    public var operation: String?
    /// `1`.
    public var version: String?
    /// ISO 4217 code of the prices.
    public var currency: String
    /// The name and description shown to the customer.
    public var descriptors: AdvancedCommerceDescriptors
    /// The items of the new subscription.
    public var items: [AdvancedCommerceSubscriptionCreateItem]
    /// The subscription's period: ISO 8601 duration, `P1W` to `P1Y`.
    public var period: String
    /// The identity of the request.
    public var requestInfo: AdvancedCommerceRequestInfo
    /// Apple's tax category of the product.
    public var taxCode: String
    /// A transaction of the customer's previous subscription: a string of digits.
    public var previousTransactionId: String?
    /// The storefront's country: ISO 3166-1 alpha-3.
    public var storefront: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(
        currency: String, descriptors: AdvancedCommerceDescriptors, items: [AdvancedCommerceSubscriptionCreateItem],
        period: String, requestInfo: AdvancedCommerceRequestInfo, taxCode: String
    ) {
        operation = "CREATE_SUBSCRIPTION"
        version = "1"
        self.currency = currency
        self.descriptors = descriptors
        self.items = items
        self.period = period
        self.requestInfo = requestInfo
        self.taxCode = taxCode
    }
}

/// An item of a new subscription.
public struct AdvancedCommerceSubscriptionCreateItem: Codable, Hashable, Sendable {
    /// The item's SKU. At most 128 characters.
    public var SKU: String
    /// The description shown to the customer. At most 45 characters.
    public var description: String
    /// The name shown to the customer. At most 30 characters.
    public var displayName: String
    /// The price in milliunits of the currency.
    public var price: Int64
    /// The discount on the item; `nil` if there is none.
    public var offer: AdvancedCommerceOffer?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(SKU: String, description: String, displayName: String, price: Int64) {
        self.SKU = SKU
        self.description = description
        self.displayName = displayName
        self.price = price
    }
}

/// Changes at least one of the items, the descriptors and the period of a subscription.
public struct AdvancedCommerceSubscriptionModifyInAppRequest: Codable, Hashable, Sendable {
    /// `MODIFY_SUBSCRIPTION`.
    public var operation: String?
    /// `1`.
    public var version: String?
    /// The identity of the request.
    public var requestInfo: AdvancedCommerceRequestInfo
    /// Any transaction of the subscription: a string of digits.
    public var transactionId: String
    /// Whether the billing day stays the same.
    public var retainBillingCycle: Bool
    /// The items to add.
    public var addItems: [AdvancedCommerceSubscriptionModifyAddItem]?
    /// The items to change.
    public var changeItems: [AdvancedCommerceSubscriptionModifyChangeItem]?
    /// The items to remove.
    public var removeItems: [AdvancedCommerceSubscriptionItemReference]?
    /// The new name and description.
    public var descriptors: AdvancedCommerceSubscriptionChangeMetadataDescriptors?
    /// The new period.
    public var periodChange: AdvancedCommerceSubscriptionModifyPeriodChange?
    /// ISO 4217 code of the prices.
    public var currency: String?
    /// Apple's tax category of the product.
    public var taxCode: String?
    /// The storefront's country: ISO 3166-1 alpha-3.
    public var storefront: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(requestInfo: AdvancedCommerceRequestInfo, transactionId: String, retainBillingCycle: Bool) {
        operation = "MODIFY_SUBSCRIPTION"
        version = "1"
        self.requestInfo = requestInfo
        self.transactionId = transactionId
        self.retainBillingCycle = retainBillingCycle
    }
}

/// An item to add.
public struct AdvancedCommerceSubscriptionModifyAddItem: Codable, Hashable, Sendable {
    /// The item's SKU. At most 128 characters.
    public var SKU: String
    /// The description shown to the customer. At most 45 characters.
    public var description: String
    /// The name shown to the customer. At most 30 characters.
    public var displayName: String
    /// The price in milliunits of the currency.
    public var price: Int64
    /// The discount on the item; `nil` if there is none.
    public var offer: AdvancedCommerceOffer?
    /// The charge for the rest of the current period, in milliunits of the currency.
    public var proratedPrice: Int64?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(SKU: String, description: String, displayName: String, price: Int64) {
        self.SKU = SKU
        self.description = description
        self.displayName = displayName
        self.price = price
    }
}

/// A replacement of an item.
public struct AdvancedCommerceSubscriptionModifyChangeItem: Codable, Hashable, Sendable {
    /// The SKU of the item before the change.
    public var currentSKU: String
    /// The SKU of the item after the change. At most 128 characters.
    public var SKU: String
    /// The description shown to the customer. At most 45 characters.
    public var description: String
    /// The name shown to the customer. At most 30 characters.
    public var displayName: String
    /// The time when the change takes effect.
    public var effective: Open<AdvancedCommerceEffective>
    /// The price in milliunits of the currency.
    public var price: Int64
    /// The reason for the change of the item.
    public var reason: Open<AdvancedCommerceChangeReason>
    /// The discount on the item; `nil` if there is none.
    public var offer: AdvancedCommerceOffer?
    /// The charge for the rest of the current period, in milliunits of the currency.
    public var proratedPrice: Int64?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(
        currentSKU: String, SKU: String, description: String, displayName: String,
        effective: Open<AdvancedCommerceEffective>, price: Int64, reason: Open<AdvancedCommerceChangeReason>
    ) {
        self.currentSKU = currentSKU
        self.SKU = SKU
        self.description = description
        self.displayName = displayName
        self.effective = effective
        self.price = price
        self.reason = reason
    }
}

/// An item to remove, or to reactivate.
public struct AdvancedCommerceSubscriptionItemReference: Codable, Hashable, Sendable {
    /// The item's SKU. At most 128 characters.
    public var SKU: String
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(SKU: String) {
        self.SKU = SKU
    }
}

/// A new period of a subscription.
public struct AdvancedCommerceSubscriptionModifyPeriodChange: Codable, Hashable, Sendable {
    /// The time when the change takes effect.
    public var effective: Open<AdvancedCommerceEffective>
    /// The new period: ISO 8601 duration, `P1W` to `P1Y`.
    public var period: String
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(effective: Open<AdvancedCommerceEffective>, period: String) {
        self.effective = effective
        self.period = period
    }
}

/// Turns auto-renewal on again.
public struct AdvancedCommerceSubscriptionReactivateInAppRequest: Codable, Hashable, Sendable {
    /// `REACTIVATE_SUBSCRIPTION`.
    public var operation: String?
    /// `1`.
    public var version: String?
    /// The identity of the request.
    public var requestInfo: AdvancedCommerceRequestInfo
    /// Any transaction of the subscription: a string of digits.
    public var transactionId: String
    /// The items to reactivate; absent for all items.
    public var items: [AdvancedCommerceSubscriptionItemReference]?
    /// The storefront's country: ISO 3166-1 alpha-3.
    public var storefront: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A value with the members required by Apple.
    public init(requestInfo: AdvancedCommerceRequestInfo, transactionId: String) {
        operation = "REACTIVATE_SUBSCRIPTION"
        version = "1"
        self.requestInfo = requestInfo
        self.transactionId = transactionId
    }
}

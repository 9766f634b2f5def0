// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A product of a simulated App Store.
public struct StoreProduct: Hashable, Sendable {
    /// The product's name in App Store Connect: `productId` of transactions.
    public var id: String
    /// `type` of transactions.
    public var type: ProductType
    /// The price without an offer. For a subscription, the price of a whole period; for monthly payments see
    /// ``SubscriptionPlan/monthly``.
    public var price: StorePrice
    /// Whether the product is shared with family members.
    public var isFamilyShareable = false
    /// Whether customers can buy and renew the product.
    public var isForSale = true
    /// Promotional offers, offer codes and win-back offers. Products other than subscriptions have only offer codes.
    public var offers: [StoreOffer] = []
    /// The plan of an auto-renewable subscription; `nil` for other products.
    public var plan: SubscriptionPlan?

    /// Creates a product. A subscription also needs a ``plan``.
    public init(id: String, type: ProductType, price: StorePrice) {
        self.id = id
        self.type = type
        self.price = price
    }
}

/// The properties that only an auto-renewable subscription has, among all products.
public struct SubscriptionPlan: Hashable, Sendable {
    /// `subscriptionGroupIdentifier` of transactions. A customer has at most one subscription in a group at a time.
    public var group: String
    /// The rank in the group; 1 is the highest. A change to a higher rank is an upgrade.
    public var level: Int
    /// The period that a payment covers.
    public var period: Period
    /// The offer for customers who never had a subscription in the group.
    public var introductoryOffer: StoreOffer?
    /// The prices of a commitment to twelve months with monthly payments; `nil` if the product has no such plan.
    public var monthly: MonthlyPlan?

    /// Creates a plan without offers.
    public init(group: String, level: Int, period: Period) {
        self.group = group
        self.level = level
        self.period = period
    }
}

/// The prices of a commitment to twelve months with monthly payments.
public struct MonthlyPlan: Hashable, Sendable {
    /// The price of a month.
    public var price: StorePrice
    /// The price of all twelve months.
    public var commitmentPrice: StorePrice

    /// Creates a plan with these prices.
    public init(price: StorePrice, commitmentPrice: StorePrice) {
        self.price = price
        self.commitmentPrice = commitmentPrice
    }
}

/// A reduced price for a limited time.
public struct StoreOffer: Hashable, Sendable {
    /// `offerType` of transactions.
    public var type: OfferType
    /// `offerIdentifier` of transactions. Only the introductory offer has none.
    public var id: String?
    /// `offerDiscountType` of transactions.
    public var payment: OfferDiscountType
    /// The period that a payment covers.
    public var period: Period
    /// The number of periods: more than 1 only with `OfferDiscountType.payAsYouGo`.
    public var count = 1
    /// The price of a payment; 0 for a free trial.
    public var price: StorePrice

    /// The length of the whole offer: `offerPeriod` of transactions; `nil` if the offer reduces a single purchase.
    public var length: Period? { payment == .oneTime ? nil : period.times(count) }

    /// Creates an offer of a single period.
    public init(type: OfferType, id: String? = nil, payment: OfferDiscountType, period: Period, price: StorePrice) {
        self.type = type
        self.id = id
        self.payment = payment
        self.period = period
        self.price = price
    }
}

/// A price in milliunits, with exceptions for some storefronts.
public struct StorePrice: Hashable, Sendable {
    /// Milliunits of a storefront's currency. The price 4.99 is 4990, regardless of the currency's own decimals.
    public var milliunits: Int64
    /// The prices in storefronts where the price is not ``milliunits``, by country (ISO 3166-1 alpha-3). They are
    /// milliunits too.
    public var exceptions: [String: Int64] = [:]

    /// Creates a price for all storefronts.
    public init(milliunits: Int64) {
        self.milliunits = milliunits
    }

    /// Parses the price of a `.storekit` file: at most 12 digits before the decimal point, and at most three after it.
    public init?(decimal text: String) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard (1...2).contains(parts.count), parts.allSatisfy({ $0.allSatisfy(\.isASCIIDigit) }), !parts[0].isEmpty
        else { return nil }
        let decimals = parts.count == 2 ? parts[1] : ""
        guard decimals.count <= 3, parts[0].count <= 12,
            let whole = Int64(parts[0]), let fraction = Int64((decimals + "000").prefix(3))
        else { return nil }
        self.init(milliunits: whole * 1000 + fraction)
    }

    /// The price in a storefront, in milliunits of its currency.
    public func milliunits(in storefront: Storefront) -> Int64 {
        exceptions[storefront.country] ?? milliunits
    }
}

extension Character {
    fileprivate var isASCIIDigit: Bool { ("0"..."9").contains(self) }
}

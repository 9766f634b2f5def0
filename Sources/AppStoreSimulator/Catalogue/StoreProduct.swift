// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A product that a simulated App Store sells.
public struct StoreProduct: Hashable, Sendable {
    /// The product's name in App Store Connect: `productId` of transactions.
    public var id: String
    /// `type` of transactions.
    public var type: ProductType
    /// The price without an offer; of a subscription, of one period that is paid at once.
    public var price: StorePrice
    /// Whether family members get it too.
    public var isFamilyShareable = false
    /// Whether it can be bought and renewed.
    public var isForSale = true
    /// Promotional offers, offer codes and win-back offers. Only offer codes exist for what is no subscription.
    public var offers: [StoreOffer] = []
    /// What only an auto-renewable subscription has.
    public var plan: SubscriptionPlan?

    /// Creates a product; what makes it a subscription is ``plan``.
    public init(id: String, type: ProductType, price: StorePrice) {
        self.id = id
        self.type = type
        self.price = price
    }
}

/// What makes a product an auto-renewable subscription.
public struct SubscriptionPlan: Hashable, Sendable {
    /// `subscriptionGroupIdentifier` of transactions. A customer has one subscription of a group at a time.
    public var group: String
    /// The rank in the group: 1 is the highest. To a higher level is an upgrade.
    public var level: Int
    /// The time for which one payment pays.
    public var period: Period
    /// The offer for customers who never had a subscription of the group.
    public var introductoryOffer: StoreOffer?
    /// The prices if the customer commits to twelve months and pays each of them; `nil` without such a plan.
    public var monthly: MonthlyPlan?

    /// Creates a plan without offers.
    public init(group: String, level: Int, period: Period) {
        self.group = group
        self.level = level
        self.period = period
    }
}

/// The prices of a commitment of twelve months that is paid month by month.
public struct MonthlyPlan: Hashable, Sendable {
    /// The price of a month.
    public var price: StorePrice
    /// The price of all twelve months.
    public var commitmentPrice: StorePrice

    /// Creates a plan of these prices.
    public init(price: StorePrice, commitmentPrice: StorePrice) {
        self.price = price
        self.commitmentPrice = commitmentPrice
    }
}

/// A reduced price for a time.
public struct StoreOffer: Hashable, Sendable {
    /// `offerType` of transactions.
    public var type: OfferType
    /// `offerIdentifier` of transactions: every offer has one but the introductory.
    public var id: String?
    /// `offerDiscountType` of transactions.
    public var payment: OfferDiscountType
    /// The time for which one payment pays.
    public var period: Period
    /// How many periods: more than 1 only with `OfferDiscountType.payAsYouGo`.
    public var count = 1
    /// The price of one payment; 0 for a free trial.
    public var price: StorePrice

    /// The length of the whole offer: `offerPeriod` of transactions; `nil` if it reduces a single purchase.
    public var length: Period? { payment == .oneTime ? nil : period.times(count) }

    /// Creates an offer of one period.
    public init(type: OfferType, id: String? = nil, payment: OfferDiscountType, period: Period, price: StorePrice) {
        self.type = type
        self.id = id
        self.payment = payment
        self.period = period
        self.price = price
    }
}

/// A price in milliunits, which one storefront or another may have of its own.
public struct StorePrice: Hashable, Sendable {
    /// Milliunits of a storefront's currency: 4.99 is 4990, whatever the currency's own decimals.
    public var milliunits: Int64
    /// Other prices, by storefront (ISO 3166-1 alpha-3).
    public var exceptions: [String: Int64] = [:]

    /// Creates a price that all storefronts have.
    public init(milliunits: Int64) {
        self.milliunits = milliunits
    }

    /// A price as `.storekit` files have it: digits with at most three decimals.
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

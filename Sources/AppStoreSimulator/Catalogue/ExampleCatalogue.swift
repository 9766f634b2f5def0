// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// The products of a simulator without a .storekit file: a consumable, a non-consumable and two auto-renewable
// subscriptions, with each kind of offer.

extension StoreCatalogue {
    /// A catalogue of four products: coins, a lifetime purchase, and two subscriptions in one group. The subscriptions
    /// have a trial, and one of them has offers.
    public static func example(bundleId: String, appAppleId: Int64) -> StoreCatalogue {
        var catalogue = StoreCatalogue(bundleId: bundleId, appAppleId: appAppleId)
        catalogue.graceDays = .sixteen
        let week = Period(1, .week)
        let month = Period(1, .month)
        let year = Period(1, .year)
        let trial = StoreOffer(type: .introductory, payment: .freeTrial, period: week, price: StorePrice(milliunits: 0))
        var monthly = catalogue.subscription("pro.monthly", 4990, level: 2, month)
        monthly.plan?.introductoryOffer = trial
        var threeMonths = StoreOffer(
            type: .promotional, id: "three-months", payment: .payAsYouGo, period: month,
            price: StorePrice(milliunits: 990))
        threeMonths.count = 3
        monthly.offers = [
            threeMonths,
            StoreOffer(
                type: .offerCode, id: "friends", payment: .payUpFront, period: month,
                price: StorePrice(milliunits: 1990)),
            StoreOffer(
                type: .winBack, id: "come-back", payment: .freeTrial, period: month, price: StorePrice(milliunits: 0)),
        ]
        var yearly = catalogue.subscription("pro.yearly", 39_990, level: 1, year)
        yearly.plan?.introductoryOffer = trial
        yearly.plan?.monthly = MonthlyPlan(
            price: StorePrice(milliunits: 3990), commitmentPrice: StorePrice(milliunits: 47_880))
        var lifetime = catalogue.product("lifetime", .nonConsumable, 99_990)
        lifetime.isFamilyShareable = true
        for product in [monthly, yearly, catalogue.product("coins", .consumable, 990), lifetime] {
            catalogue.add(product)
        }
        return catalogue
    }

    private func product(_ name: String, _ type: ProductType, _ price: Int64) -> StoreProduct {
        StoreProduct(id: "\(bundleId).\(name)", type: type, price: StorePrice(milliunits: price))
    }

    private func subscription(_ name: String, _ price: Int64, level: Int, _ period: Period) -> StoreProduct {
        var product = product(name, .autoRenewableSubscription, price)
        product.isFamilyShareable = true
        product.plan = SubscriptionPlan(group: "21000001", level: level, period: period)
        return product
    }
}

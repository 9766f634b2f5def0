// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import TestWorld
import Testing

/// Tests that renewal info, what the App Store then charges, and why a subscription ends agree, whatever follows an
/// increase of the price; and the months of a commitment.
@Suite struct RenewalPriceTests {
    /// A customer with a paid period of `pro.monthly`, which renews for 4,990 milliunits.
    private struct Shop {
        var world = World(
            seed: 1, catalogue: .example(bundleId: "com.example", appAppleId: 7), now: RandomWorld.start)
        var id = ""

        init(offer: String? = nil) throws {
            try world.addCustomer("anna")
            id = try #require(try world.buy("com.example.pro.monthly", by: "anna"))
            wait(days: 8)
            if let offer {
                _ = try world.buy("com.example.pro.monthly", by: "anna", PurchaseOptions(offer: offer))
            }
        }

        var chain: SubscriptionChain? { world.subscriptions[id] }

        mutating func wait(days: Int64) {
            world.advance(to: Timestamp(milliseconds: world.now.milliseconds + days * 86_400_000))
        }

        mutating func buy(_ product: String) throws { _ = try world.buy("com.example.\(product)", by: "anna") }

        /// The price that renewal info announces, and its `priceIncreaseStatus`.
        var announced: [Int64?] {
            [chain?.renewal.renewalPrice, chain?.renewal.priceIncreaseStatus.map { Int64($0.rawValue) }]
        }
    }

    @Test func `a price that was agreed to waits until an offer is over`() throws {
        var shop = try Shop(offer: "three-months")
        #expect(shop.announced == [990, nil])
        try shop.world.increasePrice(of: shop.id, to: 5990, needsConsent: false)
        #expect(shop.announced == [990, 1])
        shop.wait(days: 120)
        #expect(shop.chain?.transactions.map(\.price) == [0, 4990, 990, 990, 990, 5990])
    }

    @Test func `a consent that is missing is still missing after renewal was off for a while`() throws {
        var shop = try Shop()
        try shop.world.increasePrice(of: shop.id, to: 5990, needsConsent: true)
        try shop.world.cancel(shop.id)
        try shop.world.resume(shop.id)
        #expect(shop.announced == [4990, 0])
        shop.wait(days: 31)
        #expect(shop.chain?.renewal.expirationIntent == .noConsentToPriceIncrease)
    }

    @Test func `a customer who moves to another plan needs no consent for the old one`() throws {
        var shop = try Shop()
        try shop.world.cancel(shop.id)
        try shop.buy("pro.yearly")
        let id = shop.id
        try shop.world.increasePrice(of: id, to: 49_990, needsConsent: true)
        try shop.buy("pro.monthly")
        #expect(shop.announced == [4990, nil])
        #expect(throws: ImpossibleEvent.self) { try shop.world.consent(id) }
        try shop.buy("pro.yearly")
        #expect(shop.announced == [39_990, 0])
        try shop.world.consent(id)
        #expect(shop.announced == [49_990, 1])
        try shop.buy("pro.monthly")
        #expect(shop.announced == [4990, nil])
        #expect(throws: ImpossibleEvent.self) {
            try shop.world.increasePrice(of: id, to: 59_990, needsConsent: true)
        }
        try shop.buy("pro.yearly")
        #expect(shop.announced == [49_990, 1])
        shop.wait(days: 366)
        #expect(shop.chain?.current.price == 49_990)
    }

    @Test func `a commitment has twelve paid months, and is not sold everywhere`() throws {
        var world = World(
            seed: 1, catalogue: .example(bundleId: "com.example", appAppleId: 7), now: RandomWorld.start)
        try world.addCustomer("anna")
        #expect(throws: ImpossibleEvent.self) {
            try world.buy("com.example.pro.yearly", by: "anna", PurchaseOptions(isMonthly: true))
        }
        try world.move("anna", to: try #require(Storefront.known.first { $0.country == "DEU" }))
        let id = try #require(
            try world.buy("com.example.pro.yearly", by: "anna", PurchaseOptions(isMonthly: true)))
        world.advance(to: Timestamp(milliseconds: world.now.milliseconds + 364 * 86_400_000))
        let months = try #require(world.subscriptions[id]).transactions
        #expect(months.prefix(12).compactMap(\.commitmentInfo?.billingPeriodNumber) == Array(1...12))
        #expect(Set(months.map(\.price)).count == 1 && months[0].offerType == nil)
    }
}

// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import AppStoreSimulator
package import AppStoreTrust

/// A world in which random things happen to customers and families: the same ones for the same seed.
package struct RandomWorld: Sendable {
    package static let start = Timestamp(milliseconds: 1_769_851_800_000)  // 2026-01-31T09:30:00Z

    package static let app = AppIdentity(bundleId: "com.example", appAppleId: 1_500_000_001)

    package var world: World
    private var random: SeededRandom
    private var names: [String] = []

    /// - Parameters:
    ///   - customers: How many. Every fourth one is in the sandbox, and two of production are a family.
    ///   - days: How long they live. Two years more pass after that, in which nothing but time acts.
    package init(seed: UInt64, customers: Int = 5, days: Int64 = 730, actions: Int = 40) throws {
        try self.init(seed: seed, newCustomers: customers)
        let steps = Int64(customers * actions)
        for _ in 0..<steps { step(hours: 2 * 24 * days / steps) }
        pass(hours: 24 * 400)
    }

    /// A world whose customers have bought nothing yet.
    package init(seed: UInt64, newCustomers customers: Int) throws {
        world = World(seed: seed, catalogue: Self.catalogue(seed), now: Self.start)
        random = SeededRandom(seed: seed)
        names = (0..<customers).map { "customer \($0)" }
        for (index, name) in names.enumerated() {
            let storefront = Storefront.known[index % Storefront.known.count]
            try world.addCustomer(
                name, environment: index % 4 == 3 ? .sandbox : .production, storefront: storefront,
                hasAccount: index % 3 != 2)
        }
        if customers > 2 { try world.makeFamily(of: [names[0], names[1]]) }
    }

    /// Lets some time pass, then one thing happen.
    ///
    /// - Parameter hours: The longest time.
    package mutating func step(hours: Int64) {
        pass(hours: Int64.random(in: 0...hours, using: &random))
        act()
    }

    private mutating func pass(hours: Int64) {
        world.advance(to: Timestamp(milliseconds: world.now.milliseconds + hours * 3_600_000))
    }

    private static func catalogue(_ seed: UInt64) -> StoreCatalogue {
        var catalogue = StoreCatalogue(bundleId: app.bundleId, appAppleId: app.appAppleId ?? 0)
        for (id, level, period, price) in [
            ("gold.month", 1, Period(1, .month), 9990), ("gold.year", 1, Period(1, .year), 99_990),
            ("silver.month", 2, Period(1, .month), 4990), ("silver.week", 2, Period(1, .week), 1990),
        ] as [(String, Int, Period, Int64)] {
            var product = StoreProduct(
                id: id, type: .autoRenewableSubscription, price: StorePrice(milliunits: price))
            product.isFamilyShareable = level == 1
            product.plan = SubscriptionPlan(group: "21000001", level: level, period: period)
            product.offers = offers(price)
            catalogue.add(product)
        }
        if var year = catalogue["gold.year"] {
            year.plan?.monthly = MonthlyPlan(
                price: StorePrice(milliunits: 8990), commitmentPrice: StorePrice(milliunits: 107_880))
            catalogue.add(year)
        }
        if var month = catalogue["silver.month"] {
            month.plan?.introductoryOffer = StoreOffer(
                type: .introductory, payment: .freeTrial, period: Period(1, .week),
                price: StorePrice(milliunits: 0))
            catalogue.add(month)
        }
        var coins = StoreProduct(id: "coins", type: .consumable, price: StorePrice(milliunits: 990))
        coins.offers = [
            StoreOffer(
                type: .offerCode, id: "GIFT", payment: .oneTime, period: Period(1, .day),
                price: StorePrice(milliunits: 0))
        ]
        catalogue.add(coins)
        var book = StoreProduct(id: "book", type: .nonConsumable, price: StorePrice(milliunits: 2990))
        book.isFamilyShareable = true
        catalogue.add(book)
        catalogue.add(StoreProduct(id: "season", type: .nonRenewingSubscription, price: StorePrice(milliunits: 7990)))
        if seed % 3 != 0 { catalogue.graceDays = seed % 3 == 1 ? .sixteen : .three }
        return catalogue
    }

    private static func offers(_ price: Int64) -> [StoreOffer] {
        var goesOn = StoreOffer(
            type: .promotional, id: "THREE", payment: .payAsYouGo, period: Period(1, .month),
            price: StorePrice(milliunits: price / 2))
        goesOn.count = 3
        return [
            goesOn,
            StoreOffer(
                type: .offerCode, id: "CODE", payment: .payUpFront, period: Period(2, .month),
                price: StorePrice(milliunits: price / 3)),
            StoreOffer(
                type: .winBack, id: "BACK", payment: .freeTrial, period: Period(1, .month),
                price: StorePrice(milliunits: 0)),
        ]
    }

    /// One of the things that customers, developers and the App Store do, if it is possible.
    private mutating func act() {
        let trouble = inTrouble
        // States that soon pass are visited more often than by chance, so that all of their events are tried.
        let name =
            trouble.isEmpty || Bool.random(using: &random)
            ? names.randomElement(using: &random) ?? "" : trouble[0]
        let ids = world.subscriptions(of: name)
        let id = ids.first { isInTrouble($0) } ?? ids.randomElement(using: &random) ?? ""
        let all = world.history(of: name).map { $0.transaction.transactionId ?? "" }
        let transaction = all.randomElement(using: &random) ?? ""
        let newest = world.subscriptions[id]?.current.transactionId ?? transaction
        let percentage = Bool.random(using: &random) ? 100_000 : 40_000
        switch Int.random(in: 0..<52, using: &random) {
        case 0..<8: _ = try? world.buy(product(), by: name)
        case 8..<11:
            let offer = ["THREE", "CODE", "BACK", "GIFT"].randomElement(using: &random)
            _ = try? world.buy(product(), by: name, PurchaseOptions(offer: offer))
        case 11: _ = try? world.buy("coins", by: name, PurchaseOptions(quantity: 3))
        case 42..<46:
            let offer = [nil, nil, "THREE"].randomElement(using: &random) ?? nil
            _ = try? world.buy(product(), by: name, PurchaseOptions(offer: offer, hasNewCard: true))
        case 46..<52: if isInTrouble(id) { actInTrouble(name, id) }
        case 12: _ = try? world.buy("gold.year", by: name, PurchaseOptions(isMonthly: true))
        case 13..<15: try? world.cancel(id)
        case 15..<17: try? world.resume(id)
        case 17..<19: try? world.breakBilling(of: name)
        case 19..<22: try? world.fixBilling(of: name)
        case 22: try? world.refund(transaction, Refund(percentage: percentage))
        case 23: try? world.refund(newest, Refund(.appIssue, percentage: percentage))
        case 24: try? world.reverseRefund(transaction)
        case 25: try? world.reverseRefund(newest)
        case 26: try? world.requestRefund(newest, .other, declines: Bool.random(using: &random))
        case 27: try? world.declineRefund(world.refundRequests.keys.sorted().first ?? "")
        case 28: try? world.refund(world.refundRequests.keys.sorted().first ?? "")
        case 29: try? world.increasePrice(of: id, to: 12_990, needsConsent: Bool.random(using: &random))
        case 30: try? world.consent(id)
        case 31: try? world.extend(id, days: 20)
        case 32: world.extendAll(of: "silver.month", days: 3, in: .production, request: "r-\(world.now.milliseconds)")
        case 33: try? world.expire(id, Bool.random(using: &random) ? .other : .customerCancelled)
        case 34: try? world.chargeAgain(id)
        case 35:
            let family = [names[0], names[1]]
            do { try world.leaveFamily(names[0]) } catch { try? world.makeFamily(of: family) }
        case 36:
            let changes: [World.AdvancedCommerceChange] = [
                .metadata(displayName: "Gold"), .price(8990), .migration(taxCode: "C003-00-1"),
            ]
            if let change = changes.randomElement(using: &random) { try? world.change(id, with: change) }
        case 37: _ = try? world.createExternalPurchaseToken(for: name)
        case 38: try? world.rescindConsent(of: name)
        case 39: world.sendTestNotification(in: Bool.random(using: &random) ? .production : .sandbox)
        case 40: try? world.requestRefund(transaction)
        default: sell()
        }
    }

    /// What is rarely tried while a charge fails.
    private mutating func actInTrouble(_ name: String, _ id: String) {
        guard let chain = world.subscriptions[id], let product = chain.current.productId else { return }
        switch Int.random(in: 0..<15, using: &random) {
        case 0, 9...11: _ = try? world.buy("gold.month", by: name, PurchaseOptions(offer: "THREE", hasNewCard: true))
        case 6: _ = try? world.buy("gold.month", by: name, PurchaseOptions(hasNewCard: true))
        case 7: try? world.change(id, with: .metadata(displayName: "Silver"))
        case 8: try? world.change(id, with: .price(7990))
        case 1: _ = try? world.buy(self.product(), by: name)
        case 2: _ = try? world.buy(product, by: name)
        case 3: world.extendAll(of: product, days: 1, in: .production, request: "r-\(world.now.milliseconds)")
        case 4: _ = try? world.buy(self.product(), by: name, PurchaseOptions(offer: "THREE"))
        case 5: try? world.expire(id, .other)
        default:
            let older = chain.transactions.dropLast().randomElement(using: &random)
            guard let older, let id = older.transactionId else { return }
            if older.revocationDate == nil { try? world.refund(id) } else { try? world.reverseRefund(id) }
        }
    }

    /// The customers with a subscription for which a charge failed.
    private var inTrouble: [String] {
        names.filter { name in world.subscriptions(of: name).contains { isInTrouble($0) } }
    }

    private func isInTrouble(_ id: String) -> Bool {
        world.subscriptions[id].map { $0.isInGrace || $0.isInRetry } ?? false
    }

    private mutating func product() -> String {
        world.catalogue.products.randomElement(using: &random)?.id ?? ""
    }

    /// Takes a product off sale, or puts all on sale again.
    private mutating func sell() {
        let isForSale = Bool.random(using: &random)
        for var product in world.catalogue.products where isForSale || product.id == "silver.week" {
            product.isForSale = isForSale
            world.catalogue.add(product)
        }
    }
}

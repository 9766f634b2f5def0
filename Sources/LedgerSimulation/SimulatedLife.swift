// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
public import AppStoreSimulator
import PurchaseLedger

/// Customers who buy, cancel, fail to pay and get refunds at random, in a catalogue whose entitlements are known.
struct SimulatedLife {
    /// All subscriptions are of one group, and all its products grant this.
    static let subscription = "premium"
    static let book = "book"
    static let season = "season"
    static let seasonDays: Int64 = 30

    static var catalogue: StoreCatalogue {
        var catalogue = StoreCatalogue(bundleId: "com.example", appAppleId: 1_500_000_001)
        for (id, level, period, price) in [
            ("gold.month", 1, Period(1, .month), 9990), ("silver.month", 2, Period(1, .month), 4990),
            ("silver.week", 2, Period(1, .week), 1990),
        ] as [(String, Int, Period, Int64)] {
            var product = StoreProduct(
                id: id, type: .autoRenewableSubscription, price: StorePrice(milliunits: price))
            product.plan = SubscriptionPlan(group: "21000001", level: level, period: period)
            catalogue.add(product)
        }
        catalogue.add(StoreProduct(id: book, type: .nonConsumable, price: StorePrice(milliunits: 2990)))
        catalogue.add(StoreProduct(id: season, type: .nonRenewingSubscription, price: StorePrice(milliunits: 7990)))
        catalogue.add(StoreProduct(id: "coins", type: .consumable, price: StorePrice(milliunits: 990)))
        catalogue.graceDays = .three
        return catalogue
    }

    /// What the same products grant in the ledger.
    static var entitlements: Catalogue {
        var catalogue = Catalogue()
        for (id, level) in [("gold.month", 1), ("silver.month", 2), ("silver.week", 2)] {
            catalogue.products[id] = .init(entitlements: [subscription], level: level)
        }
        catalogue.products[book] = .init(entitlements: [book])
        catalogue.products[season] = .init(entitlements: [season], duration: .seconds(seasonDays * 86_400))
        return catalogue
    }

    let names: [String]

    /// Every fourth customer is in the sandbox.
    init(_ world: inout World, customers: Int) throws {
        names = (0..<customers).map { "customer \($0)" }
        for (index, name) in names.enumerated() {
            try world.addCustomer(name, environment: index % 4 == 3 ? .sandbox : .production)
        }
    }

    /// One of the things that customers, developers and the App Store do, if it is possible.
    func act(in world: inout World, _ random: inout some RandomNumberGenerator) {
        let name = names.randomElement(using: &random) ?? ""
        let id = world.subscriptions(of: name).randomElement(using: &random) ?? ""
        let all = world.history(of: name).map { $0.transaction.transactionId ?? "" }
        let transaction = all.randomElement(using: &random) ?? ""
        let newest = world.subscriptions[id]?.current.transactionId ?? transaction
        let plan = ["gold.month", "silver.month", "silver.week"].randomElement(using: &random) ?? ""
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<6: _ = try? world.buy(plan, by: name, PurchaseOptions(hasNewCard: true))
        case 6: _ = try? world.buy(Self.book, by: name)
        case 7: _ = try? world.buy(Self.season, by: name)
        case 8: _ = try? world.buy("coins", by: name)
        case 9, 10: try? world.cancel(id)
        case 11: try? world.resume(id)
        case 12, 13: try? world.breakBilling(of: name)
        case 14, 15: try? world.fixBilling(of: name)
        case 16: try? world.refund(newest)
        case 17: try? world.refund(transaction)
        case 18: try? world.reverseRefund(newest)
        default: try? world.extend(id, days: 7)
        }
    }
}

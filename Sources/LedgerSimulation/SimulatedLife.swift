// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import PurchaseLedger

/// Customers who buy, share, cancel, fail to pay and ask for refunds at random. They buy from a fixed catalogue, so
/// that the auditor knows the entitlements of each product.
struct SimulatedLife {
    /// The entitlement that all subscription products grant. All these products belong to one group.
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
            product.isFamilyShareable = id == "gold.month"
            catalogue.add(product)
        }
        var shared = StoreProduct(id: book, type: .nonConsumable, price: StorePrice(milliunits: 2990))
        shared.isFamilyShareable = true
        catalogue.add(shared)
        catalogue.add(StoreProduct(id: season, type: .nonRenewingSubscription, price: StorePrice(milliunits: 7990)))
        catalogue.add(StoreProduct(id: "coins", type: .consumable, price: StorePrice(milliunits: 990)))
        catalogue.graceDays = .three
        return catalogue
    }

    /// A verifier for the catalogue's app that trusts the roots of the authority.
    static func verifier(_ authority: StoreAuthority) throws -> AppStoreVerifier {
        let roots = try authority.roots.map { try TrustRoots(reading: $0) }
        return AppStoreVerifier(
            apps: .only([AppIdentity(bundleId: "com.example", appAppleId: 1_500_000_001)]),
            environments: [.production, .sandbox], roots: roots.dropFirst().reduce(roots[0]) { $0.union($1) })
    }

    /// The ledger's catalogue: the entitlements that the products of ``catalogue`` grant.
    static var entitlements: Catalogue {
        var catalogue = Catalogue()
        for (id, level) in [("gold.month", 1), ("silver.month", 2), ("silver.week", 2)] {
            catalogue.products[id] = .init(entitlements: [subscription], level: level)
        }
        catalogue.products[book] = .init(entitlements: [book])
        catalogue.products[season] = .init(entitlements: [season], duration: .seconds(seasonDays * 86_400))
        return catalogue
    }

    /// The app's answer to a consumption request, by product id.
    static var consumption: [String: ConsumptionInformation] {
        var information = ConsumptionInformation()
        information.deliveryStatus = Open(.delivered)
        information.sampleContentProvided = false
        information.refundPreference = Open(.decline)
        return Dictionary(uniqueKeysWithValues: catalogue.products.map { ($0.id, information) })
    }

    let names: [String]

    /// The customers whose consent to consumption information is recorded: two of three.
    var consenting: [String] { names.enumerated().filter { $0.offset % 3 != 2 }.map(\.element) }

    /// Adds the customers to a world. Every fourth customer is in the sandbox.
    init(_ world: inout World, customers: Int) throws {
        names = (0..<customers).map { "customer \($0)" }
        for (index, name) in names.enumerated() {
            try world.addCustomer(name, environment: index % 4 == 3 ? .sandbox : .production)
        }
    }

    /// Performs a random act of a customer, a developer or the App Store, if the act is possible.
    func act(in world: inout World, _ random: inout some RandomNumberGenerator) {
        do {
            try attempt(in: &world, &random)
        } catch {
            // An act that is impossible in the customer's state does not happen.
        }
    }

    private func attempt(in world: inout World, _ random: inout some RandomNumberGenerator) throws {
        let name = names.randomElement(using: &random) ?? ""
        let id = world.subscriptions(of: name).randomElement(using: &random) ?? ""
        let all = world.history(of: name).map { $0.transaction.transactionId ?? "" }
        let transaction = all.randomElement(using: &random) ?? ""
        let newest = world.subscriptions[id]?.current.transactionId ?? transaction
        let plan = ["gold.month", "silver.month", "silver.week"].randomElement(using: &random) ?? ""
        switch Int.random(in: 0..<28, using: &random) {
        case 0..<6: try world.buy(plan, by: name, PurchaseOptions(hasNewCard: true))
        case 6: try world.buy(Self.book, by: name)
        case 7: try world.buy(Self.season, by: name)
        case 8: try world.buy("coins", by: name)
        case 9, 10: try world.cancel(id)
        case 11: try world.resume(id)
        case 12, 13: try world.breakBilling(of: name)
        case 14, 15: try world.fixBilling(of: name)
        case 16: try world.refund(newest)
        case 17: try world.refund(transaction)
        case 18: try world.reverseRefund(newest)
        case 19: try world.extend(id, days: 7)
        case 20: try requestRefund(of: newest, in: &world)
        case 21: try requestRefund(of: transaction, in: &world)
        case 22: try decideRefund(in: &world, &random)
        case 23, 24: try joinFamily(name, in: &world, &random)
        case 25: try askAgain(in: &world, &random)
        case 26: try insistOnRefund(in: &world, &random)
        default: try world.leaveFamily(name)
        }
    }

    /// Asks for a refund. Only the buyer of a transaction gets money back.
    private func requestRefund(of transaction: String, in world: inout World) throws {
        guard world.transaction(transaction)?.inAppOwnershipType == .purchased else { return }
        try world.requestRefund(transaction)
    }

    /// The App Store decides about a random refund request.
    private func decideRefund(in world: inout World, _ random: inout some RandomNumberGenerator) throws {
        guard let id = world.refundRequests.keys.sorted().randomElement(using: &random) else { return }
        if Bool.random(using: &random) { try world.refund(id) } else { try world.declineRefund(id) }
    }

    /// The App Store repeats its consumption request to the app.
    private func askAgain(in world: inout World, _ random: inout some RandomNumberGenerator) throws {
        guard let id = world.refundRequests.keys.sorted().randomElement(using: &random) else { return }
        try world.repeatConsumptionRequest(id)
    }

    /// The App Store declines a refund, and the customer asks again.
    private func insistOnRefund(in world: inout World, _ random: inout some RandomNumberGenerator) throws {
        guard let id = world.refundRequests.keys.sorted().randomElement(using: &random) else { return }
        try world.declineRefund(id)
        try requestRefund(of: id, in: &world)
    }

    private func joinFamily(_ name: String, in world: inout World, _ random: inout some RandomNumberGenerator) throws {
        let environment = world.customers[name]?.environment
        let others = names.filter { $0 != name && world.customers[$0]?.environment == environment }
        guard let other = others.randomElement(using: &random) else { return }
        try world.makeFamily(of: [name, other])
    }

    /// The transactions that the family shares with a customer. Their documents lack the customer's account in the app.
    /// The app must therefore present them to the ledger, which could not know the customer otherwise.
    func shared(with name: String, in world: World) -> [JWSTransactionDecodedPayload] {
        let subscriptions = world.subscriptions(of: name).compactMap { world.subscriptions[$0]?.current }
        let purchases = (world.customers[name]?.purchases ?? []).compactMap { world.purchases[$0] }
        return (subscriptions + purchases).filter { $0.inAppOwnershipType == .familyShared }
    }
}

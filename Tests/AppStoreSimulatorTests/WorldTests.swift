// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import PurchaseLedger
import TestData
import Testing

/// A simulated App Store beside the ledger: two readings of the same rules.
@Suite struct WorldTests {
    static let start = Timestamp(iso8601: "2026-01-31T09:30:00Z") ?? Timestamp(milliseconds: 0)

    static func world(seed: UInt64) -> World {
        var catalogue = StoreCatalogue(bundleId: "com.example", appAppleId: 1_500_000_001)
        for (id, level, period, price) in [
            ("gold.month", 1, Period(1, .month), 9990), ("gold.year", 1, Period(1, .year), 99_990),
            ("silver.month", 2, Period(1, .month), 4990), ("silver.week", 2, Period(1, .week), 1990),
        ] {
            var product = StoreProduct(
                id: id, type: .autoRenewableSubscription, price: StorePrice(milliunits: Int64(price)))
            product.plan = SubscriptionPlan(group: "21000001", level: level, period: period)
            if id == "silver.month" {
                product.plan?.introductoryOffer = StoreOffer(
                    type: .introductory, payment: .freeTrial, period: Period(1, .week), price: StorePrice(milliunits: 0)
                )
                product.offers = [
                    StoreOffer(
                        type: .promotional, id: "three", payment: .payAsYouGo, period: Period(1, .month),
                        price: StorePrice(milliunits: 990))
                ]
                product.offers[0].count = 3
            }
            catalogue.add(product)
        }
        catalogue.add(StoreProduct(id: "coins", type: .consumable, price: StorePrice(milliunits: 990)))
        catalogue.add(StoreProduct(id: "book", type: .nonConsumable, price: StorePrice(milliunits: 2990)))
        if seed % 3 != 0 { catalogue.graceDays = seed % 3 == 1 ? .sixteen : .three }
        return World(seed: seed, catalogue: catalogue, now: start)
    }

    /// A world in which random things happen to some customers over two years.
    static func history(seed: UInt64, customers: Int = 5) throws -> World {
        var world = world(seed: seed)
        var random = SeededRandom(seed: seed)
        let names = (0..<customers).map { "customer \($0)" }
        for (index, name) in names.enumerated() {
            try world.addCustomer(name, environment: index % 4 == 3 ? .sandbox : .production)
        }
        for _ in 0..<customers * 40 {
            let hours = Int64.random(in: 0...(24 * 2 * 730 / Int64(customers * 40)), using: &random)
            world.advance(to: Timestamp(milliseconds: world.now.milliseconds + hours * 3_600_000))
            world.doSomething(to: names.randomElement(using: &random) ?? names[0], &random)
        }
        world.advance(to: Timestamp(milliseconds: world.now.milliseconds + 400 * 86_400_000))
        return world
    }

    @Test func `the same seed gives the same occurrences`() throws {
        #expect(try Self.history(seed: 5).occurrences == Self.history(seed: 5).occurrences)
        #expect(try Self.history(seed: 5).occurrences != Self.history(seed: 6).occurrences)
    }

    @Test(arguments: 1...12 as ClosedRange<UInt64>)
    func `the ledger's status is the App Store's at every notification`(seed: UInt64) async throws {
        let world = try Self.history(seed: seed)
        let authority = try CertificateAuthority(from: Timestamp(milliseconds: Self.start.milliseconds - 86_400_000))
        let signer = try WorldSigner(authority)
        let roots = try authority.roots.map { try TrustRoots(reading: $0) }
        let verifier = AppStoreVerifier(
            apps: .only([AppIdentity(bundleId: "com.example", appAppleId: 1_500_000_001)]),
            environments: [.production, .sandbox], roots: roots[0].union(roots[1]))
        let ledger = Ledger(storage: MemoryLedgerStorage())
        // Its signers' certificates last for two years.
        let end = Timestamp(milliseconds: Self.start.milliseconds + 728 * 86_400_000)
        for occurrence in world.occurrences where occurrence.date < end {
            let token = try signer.notification(occurrence, from: world.catalogue)
            let verified = try await verifier.verify(notification: token.utf8, at: occurrence.date)
            let evidence = try #require(Evidence(verified))
            _ = try await ledger.record([evidence], at: occurrence.date)
            guard let status = occurrence.status, let id = occurrence.transaction?.originalTransactionId else {
                continue
            }
            let scope = LedgerScope(bundleId: "com.example", environment: occurrence.environment)
            let chain = try #require(try await ledger.chain(ChainKey(id, in: scope)))
            let answer = chain.subscription(at: occurrence.date)?.status
            #expect(
                answer?.number == status.rawValue,
                "Seed \(seed), \(occurrence.notice) of \(occurrence.date.iso8601): \(String(describing: answer))")
        }
    }
}

extension World {
    /// One of the things that customers and the App Store do, if it is possible.
    mutating func doSomething(to name: String, _ random: inout SeededRandom) {
        let id = subscriptions(of: name).first
        let chain = id.flatMap { subscriptions[$0] }
        let transaction = chain?.transactions.randomElement(using: &random)?.transactionId
        let product = catalogue.products.randomElement(using: &random)?.id ?? ""
        switch Int.random(in: 0..<16, using: &random) {
        case 0..<5: _ = try? buy(product, by: name)
        case 5: _ = try? buy("silver.month", by: name, PurchaseOptions(offer: "three"))
        case 6, 7: if let id { try? cancel(id) }
        case 8: if let id { try? resume(id) }
        case 9: try? breakBilling(of: name)
        case 10, 11: try? fixBilling(of: name)
        case 12: if let transaction { try? refund(transaction) }
        case 13: if let transaction { try? reverseRefund(transaction) }
        case 14:
            if let id { try? increasePrice(of: id, to: 12_990, needsConsent: Bool.random(using: &random)) }
        default: if let id { try? consent(id) }
        }
    }
}

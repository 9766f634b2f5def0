// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import TestWorld
import Testing

@testable import PurchaseLedger

/// Tests which purchases a question about entitlements need not load.
@Suite struct SettlementTests {
    struct Change<Subject>: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let make: @Sendable (inout Subject) -> Void

        init(_ name: String, _ make: @escaping @Sendable (inout Subject) -> Void) {
            testDescription = name
            self.make = make
        }
    }

    /// Catalogues under which the same purchases are settled at other instants, or never.
    static let changes: [Change<Catalogue>] = [
        Change("another leeway") { $0.staleLeeway = .seconds(5 * 86_400) },
        Change("another length") { $0.products["season"]?.duration = .seconds(30 * 86_400) },
        Change("no length") { $0.products["season"]?.duration = nil },
        Change("another level") { $0.products["high"]?.level = 3 },
        Change("a product less") { $0.products["coins"] = nil },
        Change("a refused purchase") { $0.refusedPurchases = ["book", "1"] },
    ]

    /// What a question about entitlements needs of holdings. Of subscriptions it needs those of which the App Store is
    /// asked.
    private struct Essence: Equatable {
        var ids: [String]
        var entitlements: [Entitlement]
        var unknownProducts: Set<String>
        var recent: Set<String>
        var nextChange: Timestamp?
        var access: Set<String>
        var uncertain: Set<String>

        init?(_ found: Ledger.CustomerHoldings?, asks: Bool) {
            guard let found, let holdings = found.environments[.production] else { return nil }
            ids = found.ids
            entitlements = holdings.entitlements
            (unknownProducts, recent) = (holdings.unknownProducts, holdings.recentUnknownProducts)
            nextChange = holdings.nextChange
            access = Set(holdings.subscriptions.filter(\.value.hasAccess).keys)
            uncertain = asks ? Set(holdings.subscriptions.filter(\.value.isUncertain).keys) : []
        }
    }

    private static func expectSame(_ ledger: Ledger, at instant: Timestamp, _ trace: String) async throws {
        let (app, asks) = (Facts.scope.bundleId, !ledger.rules.asksAppStore.isEmpty)
        for id in RandomHistory.customers.map(\.id).sorted() {
            let all = try await ledger.holdings(of: id, of: app, in: [.production], at: instant)
            let open = try await ledger.openHoldings(of: id, of: app, in: [.production], at: instant)
            #expect(
                Essence(open, asks: asks) == Essence(all, asks: asks), "\(id) at \(instant.iso8601)\n\(trace)")
        }
    }

    @Test(arguments: 0..<12)
    func `an answer without settled purchases is that of all purchases, at any time and by any catalogue`(
        seed: UInt64
    ) async throws {
        var history = RandomHistory(seed)
        var ledgers = [history.ledger()]
        ledgers.append(ledgers[0])
        ledgers[1].rules.asksAppStore = []
        let change = Self.changes[Int(seed) % Self.changes.count]
        ledgers.append(ledgers[Int(seed / 6 % 2)])
        if var catalogue = ledgers[2].rules.catalogues[Facts.scope.bundleId] {
            change.make(&catalogue)
            ledgers[2].rules.catalogues[Facts.scope.bundleId] = catalogue
        }
        for number in 0..<40 {
            // As in a rolling restart, servers with different catalogues record in turn.
            let ledger = ledgers[number % 5 == 4 ? 2 : 0]
            try await history.take(history.next(), ledger)
            if number % 3 == 0 { while try await ledger.publishDueChanges(at: history.now) > 0 {} }
            if number % 16 == 15 { _ = try await ledger.publishCatalogueChanges(at: history.now) }
            guard number % 8 == 7 else { continue }
            for days in [-20.0, -3, -0.5, 0, 0.01, 2, 9, 60] {
                let instant = history.now.advanced(by: .seconds(days * 86_400))
                for ledger in ledgers {
                    try await Self.expectSame(ledger, at: instant, "\(change.testDescription)\n\(history.trace)")
                }
            }
        }
    }

    @Test(arguments: changes) func `a catalogue that settles differently has a stamp of its own`(
        change: Change<Catalogue>
    ) {
        var catalogue = RandomHistory.catalogue
        change.make(&catalogue)
        #expect(catalogue.stamp != RandomHistory.catalogue.stamp)
        catalogue = RandomHistory.catalogue
        catalogue.products["book"]?.entitlements = ["book", "library"]
        #expect(catalogue.stamp == RandomHistory.catalogue.stamp)
    }

    private static let ended = LedgerRules(catalogues: [
        Facts.scope.bundleId: Catalogue(products: ["month": .init(entitlements: ["pro"])])
    ])

    /// A purchase, and whether it is settled on day 100.
    @Test(
        arguments: [
            ("an ended month", "month", 30, ProductType.autoRenewableSubscription, true),
            ("a month without an end", "month", nil, .autoRenewableSubscription, false),
            ("a book", "book", nil, .nonConsumable, false),
            ("coins that the catalogue lacks", "coins", nil, .consumable, true),
            ("a season of unknown length", "season", nil, .nonRenewingSubscription, false),
        ] as [(String, String, Double?, ProductType, Bool)])
    func `what gives nothing more is settled, and left out`(
        name: String, product: String, until: Double?, type: ProductType, isSettled: Bool
    ) async throws {
        let (ledger, signed) = (Ledger(storage: MemoryLedgerStorage(), rules: Self.ended), try SignedHistory())
        let token = try signed.transaction(product: product, until: until, type: type)
        _ = try await ledger.record([signed.evidence(transaction: token)], claimedBy: "anna", at: Facts.day(0))
        let id = CustomerID("anna", of: Facts.scope.bundleId)
        let catalogue = ledger.rules.catalogue(of: Facts.scope.bundleId)
        for (day, isOut) in [(1.0, false), (100, isSettled)] {
            let settled = SettledChains(at: Facts.day(day), catalogue: catalogue, keepsStale: false)
            let found = try await ledger.storage.load(.holdings(of: [id], in: [.production], besides: settled))
            #expect(found.chains.isEmpty == isOut, "\(name) on day \(day)")
            #expect(found.unknownProducts[.production] == (isOut && product == "coins" ? ["coins"] : []))
        }
    }

    /// Changes of the third of four months, after which their order alone no longer tells which counts.
    static let dependences: [Change<TransactionStatement>] = [
        Change("upgraded") { $0.isUpgraded = true },
        Change("another product") { $0.productId = "year" },
        Change("another group") { $0.subscriptionGroup = "2" },
        Change("the purchase event of the first month") { $0.webOrderLineItemId = "100" },
        Change("not said whether renewed") { $0.transactionReason = nil },
        Change("longer than the next") { $0.expiresDate = Facts.day(130) },
        Change("begun with the next") { $0.purchaseDate = Facts.day(90) },
        Change("stated by a receipt") { $0.source = Open(.receipt) },
        Change("another chain") { $0.otherChain = "2" },
    ]

    private static func months(_ change: (inout TransactionStatement) -> Void = { _ in }) -> Chain {
        var chain = Chain(Facts.key)
        for number in 0..<4 {
            let start = 30 * Double(number)
            var month = Facts.transaction("\(number + 1)", signed: start, from: start, until: start + 30)
            month.webOrderLineItemId = "\(number + 100)"
            month.transactionReason = Open(number == 0 ? .purchase : .renewal)
            month.subscriptionGroup = "1"
            if number == 2 { change(&month) }
            chain.take(month)
        }
        return chain
    }

    @Test(arguments: dependences) func `past periods are left out only if none depends on another`(
        dependence: Change<TransactionStatement>
    ) {
        func newest(_ chain: Chain) -> Timestamp? {
            let catalogue = RandomHistory.catalogue
            return chain.history(catalogue, at: Facts.day(0)).settlement(chain)?.newestPeriod
        }
        #expect(newest(Self.months()) == Facts.day(90))
        #expect(newest(Self.months(dependence.make)) == nil)
        var erased = Self.months()
        erased.mergeResidue(Facts.transaction("1", signed: 0, from: 0, until: 30))
        #expect(newest(erased) == nil)
    }

    @Test func `facts that change end the settlement until the purchase is evaluated`() async throws {
        let (ledger, signed) = (Ledger(storage: MemoryLedgerStorage(), rules: Self.ended), try SignedHistory())
        let token = try signed.transaction()
        _ = try await ledger.record([signed.evidence(transaction: token)], claimedBy: "anna", at: Facts.day(0))
        var record = try #require(try await ledger.snapshot([.chain(Facts.key)]).chains[Facts.key])
        #expect(record.settlement?.at == Facts.day(30).advanced(by: .seconds(3600)))
        record.chain.merge(Facts.transaction(signed: 40, until: 70))
        #expect(record.settlement == nil)
    }

    @Test func `a check and a rebuild find a wrong settlement`() async throws {
        let (ledger, signed) = (Ledger(storage: MemoryLedgerStorage(), rules: Self.ended), try SignedHistory())
        let token = try signed.transaction()
        _ = try await ledger.record([signed.evidence(transaction: token)], claimedBy: "anna", at: Facts.day(0))
        let right = try #require(try await ledger.snapshot([.chain(Facts.key)]).chains[Facts.key])
        var wrong = right
        wrong.settlement?.at = Facts.day(2)
        try await ledger.put(wrong)
        #expect(try await ledger.check(by: signed.verifier).faults.count == 1)
        #expect(try await ledger.rebuild(by: signed.verifier, at: Facts.day(1)).differing == [Facts.key])
        #expect(try await ledger.snapshot([.chain(Facts.key)]).chains[Facts.key]?.settlement == right.settlement)
        // By another catalogue it counts for nothing.
        wrong.settlement?.catalogue = 0
        try await ledger.put(wrong)
        #expect(try await ledger.check(by: signed.verifier).faults == [])
    }
}

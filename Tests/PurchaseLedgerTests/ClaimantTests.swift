// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Testing

/// Tests who presented a purchase, and that no claim by others keeps it from the customer that had it first.
@Suite struct ClaimantTests {
    private typealias Shop = ClaimPolicyTests.Shop

    /// The customers that presented the month, by their first ids, the first one first; `nil` for one that is gone.
    private static func claimants(_ shop: Shop, among ids: [String]) async throws -> [String?] {
        let customers = ids.map { LedgerKey.customerID(CustomerID($0, of: Facts.scope.bundleId)) }
        let snapshot = try await shop.ledger.snapshot(customers + [.chain(Facts.key)])
        let names = Dictionary(snapshot.customers.values.map { ($0.customer.number, $0.ids.first) }) { $1 }
        return (snapshot.chains[Facts.key]?.claimants.list ?? []).map { names[$0.number] ?? nil }
    }

    // MARK: The first one

    @Test(arguments: [ClaimPolicy.accountTokenWins, .transfer, .transferIfInactive])
    func `ten strangers with a copied document do not lock out the customer that had the purchase first`(
        policy: ClaimPolicy
    ) async throws {
        let shop = try Shop(policy)
        let document = try await shop.month()
        // With transferIfInactive a purchase moves only after its end.
        let day = policy == .transferIfInactive ? 31.0 : 1
        try await shop.claim("anna", document, day: day, limits: true)
        for number in 1...10 { #expect(try await shop.claim("c\(number)", document, day: day, limits: true)) }
        #expect(try await !shop.claim("c11", document, day: day, limits: true))
        for _ in 0..<3 {
            #expect(try await shop.claim("anna", document, day: day + 0.5, limits: true))
            #expect(try await shop.owners() == ["anna"])
            #expect(try await !shop.claim("c1", document, day: day + 0.5, limits: true))
        }
        // The returns do not count: a day after the strangers' claims, others may claim again.
        #expect(try await shop.claim("c1", document, day: day + 1, limits: true))
        #expect(try await shop.claim("anna", document, day: day + 1, limits: true))
    }

    @Test(arguments: [ClaimPolicy.accountTokenWins, .transfer])
    func `a correction with a server key holds: its customer is the first one, and the thief is not`(
        policy: ClaimPolicy
    ) async throws {
        let shop = try Shop(policy)
        let document = try await shop.month()
        try await shop.claim("thief", document, limits: true)
        try await shop.claim("anna", document, limits: false)
        for _ in 0..<20 {
            try await shop.claim("thief", document, limits: true)
            #expect(try await shop.claim("anna", document, limits: true))
        }
        #expect(try await !shop.claim("thief", document, limits: true))
        #expect(try await shop.owners() == ["anna"])
    }

    @Test func `what a policy refuses, it refuses to the first customer too`() async throws {
        let shop = try Shop(.transferIfInactive)
        let document = try await shop.month()
        try await shop.claim("anna", document, day: 31)
        try await shop.claim("bert", document, day: 31)
        let renewal = try await shop.month(period: 1)
        #expect(try await !shop.claim("anna", renewal, day: 32))
        #expect(try await shop.owners() == ["bert"])
    }

    /// Each case: who presents the purchase in which order, and who is then known to have presented it.
    private static let orders: [(ClaimPolicy, claims: [String], account: String?, claimants: [String?])] = [
        // The owner alone, however often, stores nothing.
        (.transfer, ["anna", "anna"], nil, []), (.keep, ["anna", "anna"], nil, []), (.share, ["anna"], nil, []),
        (.transfer, ["anna", "bert"], nil, ["anna", "bert"]), (.keep, ["anna", "bert"], nil, ["anna", "bert"]),
        (.share, ["anna", "bert", "cora"], nil, ["anna", "bert", "cora"]),
        (.transfer, ["anna", "bert", "cora", "bert"], nil, ["anna", "bert", "cora"]),
        (.transfer, ["anna", "bert", "anna"], nil, ["anna", "bert"]),
        // An owner that only a token names yields to a claim, and then was never one.
        (.accountTokenWins, ["bert"], "anna", []), (.accountTokenWins, ["bert", "cora"], "anna", ["bert", "cora"]),
        // One that does not yield had it first, although it never presented it.
        (.keep, ["bert"], "anna", ["anna", "bert"]), (.transferIfInactive, ["bert"], "anna", ["anna", "bert"]),
        (.accountTokenWins, ["anna", "bert"], "anna", ["anna", "bert"]),
    ]

    @Test(arguments: orders.indices)
    func `the customers that presented a purchase are kept once another than its owner does`(index: Int) async throws {
        let order = Self.orders[index]
        let shop = try Shop(order.0)
        let document = try await shop.month(order.account)
        try await shop.notify(document)
        for id in order.claims { try await shop.claim(id, document, limits: true) }
        #expect(try await Self.claimants(shop, among: ["anna", "bert", "cora"]) == order.claimants)
    }

    // MARK: How many

    @Test func `a purchase that a fourth customer presents is contested, and after 30 days it no longer is`()
        async throws
    {
        let shop = try Shop(.keep)
        let document = try await shop.month()
        var found: [[ChainKey: Int]] = []
        for (id, day) in [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("a", 30), ("a", 32.5), ("e", 100)] {
            let result = try await shop.ledger.record([document], claimedBy: id, at: Facts.day(day))
            let isContested = result.claimants[Facts.key] ?? 0 > 3
            #expect(result.notices.keys.map(\.kind) == (isContested ? [.contestedPurchase] : []))
            found.append(result.claimants)
        }
        // After day 32 `b` no longer counts. The first one always does.
        #expect(found.map { $0[Facts.key] ?? 0 } == [0, 2, 3, 4, 4, 3, 2])
        let answer = try await shop.ledger.customer("a", in: Facts.scope, at: Facts.day(100))
        #expect(answer?.claimants == ["1": 2])
        #expect(try await shop.ledger.customer("a", in: Facts.scope, at: Facts.day(200))?.claimants == [:])
        #expect(try await Self.claimants(shop, among: ["a", "b", "c", "d", "e"]) == ["a", "e"])
    }

    @Test func `of many customers the newest sixteen are kept, with the first one`() async throws {
        let shop = try Shop(.keep)
        let document = try await shop.month()
        let ids = (0..<40).map { "c\($0)" }
        for id in ids { try await shop.claim(id, document) }
        let found = try await Self.claimants(shop, among: ids)
        #expect(found.map { $0 ?? "" } == ["c0"] + ids.suffix(15))
        let result = try await shop.ledger.record([document], claimedBy: "c0", at: Facts.day(1))
        #expect(result.claimants == [Facts.key: 16])
    }

    @Test func `a customer that presents a purchase again writes nothing within a day`() async throws {
        let shop = try Shop(.keep)
        let document = try await shop.month()
        for id in ["a", "b"] { try await shop.claim(id, document, day: 1) }
        func at() async throws -> Timestamp? {
            try await shop.ledger.snapshot([.chain(Facts.key)]).chains[Facts.key]?.claimants.list.last?.at
        }
        try await shop.claim("b", document, day: 1.9)
        #expect(try await at() == Facts.day(1))
        try await shop.claim("b", document, day: 2)
        #expect(try await at() == Facts.day(2))
    }

    @Test(arguments: [Int64.min, .max])
    func `a clock that was wrong counts nobody, and traps nowhere`(time: Int64) async throws {
        let shop = try Shop(.keep)
        let document = try await shop.month()
        try await shop.claim("a", document)
        let wrong = Timestamp(milliseconds: time)
        _ = try await shop.ledger.record([document], claimedBy: "b", at: wrong)
        #expect(try await shop.ledger.record([document], claimedBy: "c", at: Facts.day(2)).claimants == [Facts.key: 2])
    }

    // MARK: Changes of customers and chains

    @Test func `two customers that become one count once, and the one that had the purchase first stays the first`()
        async throws
    {
        let shop = try Shop(.transfer)
        let document = try await shop.month()
        for id in ["anna", "bert", "cora", "anna"] { try await shop.claim(id, document, limits: true) }
        // `anna` owns the purchase now. Her record goes.
        #expect(try await shop.ledger.addAlias("anna", to: "dora", in: Facts.scope, at: Facts.day(2)) == false)
        try await shop.claim("dora", shop.signed.evidence(receipt: [], created: 3))
        #expect(try await shop.ledger.addAlias("anna", to: "dora", in: Facts.scope, at: Facts.day(2)))
        let ids = ["anna", "bert", "cora", "dora"]
        #expect(try await Self.claimants(shop, among: ids) == ["dora", "bert", "cora"])
        #expect(try await shop.ledger.addAlias("cora", to: "dora", in: Facts.scope, at: Facts.day(2)))
        #expect(try await Self.claimants(shop, among: ids) == ["dora", "bert"])
        #expect(try await shop.ledger.addAlias("bert", to: "dora", in: Facts.scope, at: Facts.day(2)))
        #expect(try await Self.claimants(shop, among: ids) == ["dora"])
        #expect(try await shop.ledger.customer("dora", in: Facts.scope, at: Facts.day(2))?.claimants == [:])
    }

    @Test func `an erased customer is not among those that presented a purchase that another one owns too`()
        async throws
    {
        let shop = try Shop(.share)
        let document = try await shop.month()
        for id in ["anna", "bert", "cora"] { try await shop.claim(id, document) }
        _ = try await shop.ledger.delete("cora", in: Facts.scope, at: Facts.day(2))
        #expect(try await Self.claimants(shop, among: ["anna", "bert"]) == ["anna", "bert"])
        _ = try await shop.ledger.delete("anna", in: Facts.scope, at: Facts.day(2))
        #expect(try await Self.claimants(shop, among: ["bert"]) == [])
    }

    @Test func `an erased purchase forgets who presented it`() async throws {
        let shop = try Shop(.transfer)
        let document = try await shop.month()
        for id in ["anna", "bert"] { try await shop.claim(id, document) }
        _ = try await shop.ledger.delete("bert", in: Facts.scope, at: Facts.day(2))
        #expect(try await Self.claimants(shop, among: ["anna"]) == [])
    }

    @Test func `a migrated subscription keeps who presented it, and so does a rebuild`() async throws {
        let shop = try Shop(.transfer)
        let document = try await shop.month()
        for id in ["anna", "bert"] { try await shop.claim(id, document, limits: true) }
        let migrated = try await shop.signed.evidence(
            transaction: shop.signed.transaction("1", original: "100", signed: 10) {
                $0.previousOriginalTransactionId = "1"
            })
        for id in ["cora", "dora"] { try await shop.claim(id, migrated, day: 11, limits: true) }
        let key = ChainKey("100", in: Facts.scope)
        func list() async throws -> Claimants? {
            try await shop.ledger.snapshot([.chain(key)]).chains[key]?.claimants
        }
        let before = try await list()
        #expect(before?.list.count == 4)
        #expect(try await shop.claim("anna", migrated, day: 12, limits: true))
        #expect(try await list()?.first == before?.first)
        _ = try await shop.ledger.rebuild(by: shop.signed.verifier, at: Facts.day(13))
        #expect(try await list() == before)
    }
}

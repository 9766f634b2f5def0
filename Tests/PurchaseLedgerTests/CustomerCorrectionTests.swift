// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Testing

/// Tests the corrections of customers by a backend: an alias is taken off, and a merge is undone.
@Suite struct CustomerCorrectionTests {
    private typealias Shop = ClaimPolicyTests.Shop

    private static func correction() throws -> Correction { try #require(Correction(by: "5tnvindf", reason: "why")) }

    private static func ids(_ shop: Shop, _ id: String) async throws -> [[UInt8]] {
        let id = CustomerID(id, of: Facts.scope.bundleId)
        let customer = try await shop.ledger.storage.load(LedgerQuery([.customerID(id)])).customer(id)
        return customer?.ids.map { Array($0.utf8) } ?? []
    }

    private static func bytes(_ ids: String...) -> [[UInt8]] { ids.map { Array($0.utf8) } }

    private static func merge(_ shop: Shop, _ alias: String, into id: String, day: Double = 1) async throws {
        #expect(try await shop.ledger.addAlias(alias, to: id, in: Facts.scope, at: Facts.day(day)))
    }

    private static func undo(_ shop: Shop, _ id: String, day: Double = 9) async throws -> MergeUndoing {
        try await shop.ledger.undoMerge(of: id, in: Facts.scope, correction(), at: Facts.day(day))
    }

    /// A purchase of its own for each number.
    static func book(_ shop: ClaimPolicyTests.Shop, _ number: Int) async throws -> Evidence {
        try await shop.signed.evidence(
            transaction: shop.signed.transaction(
                "\(number)", original: "\(number)", product: "book", until: nil, type: .nonConsumable))
    }

    private static func purchases(_ shop: Shop, _ id: String) async throws -> [String] {
        let answer = try await shop.ledger.customer(id, in: Facts.scope, at: Facts.day(10))
        return answer?.purchases.map(\.transactionId).sorted() ?? []
    }

    /// Anna has the purchases 1 and 2, bert has 3 and 4, and bert is merged into anna.
    private static func shop(_ policy: ClaimPolicy = .transfer) async throws -> Shop {
        let shop = try Shop(policy)
        for (number, id) in [(1, "anna"), (2, "anna"), (3, "bert"), (4, "bert")] {
            try await shop.claim(id, book(shop, number))
        }
        try await merge(shop, "robert", into: "bert")
        try await merge(shop, "bert", into: "anna")
        return shop
    }

    /// The number of records about former customers.
    private static func records(_ shop: Shop) async throws -> [String] {
        var found: [String] = []
        for kind in ["merge", "merges", "deletedCustomer"] {
            let selection = RecordSelection(RecordKind(rawValue: kind))
            found += try await shop.ledger.storage.records(selection, limit: 100).map { _ in kind }
        }
        return found
    }

    // MARK: Aliases

    @Test func `an alias is taken off, byte by byte, and then belongs to no customer`() async throws {
        let shop = try Shop()
        try await shop.claim("anna", shop.month())
        // The Kelvin sign is canonically equivalent to K.
        for alias in ["\u{212A}", "K"] { try await Self.merge(shop, alias, into: "anna") }
        for (alias, id, outcome, left) in [
            ("x", "anna", .otherId, Self.bytes("anna", "\u{212A}", "K")),
            ("anna", "K", .firstId, Self.bytes("anna", "\u{212A}", "K")),
            ("K", "x", .unknownCustomer, Self.bytes("anna", "\u{212A}", "K")),
            ("\u{212A}", "K", .removed, Self.bytes("anna", "K")),
            ("\u{212A}", "anna", .otherId, Self.bytes("anna", "K")),
            ("K", "anna", .removed, Self.bytes("anna")), ("anna", "anna", .firstId, Self.bytes("anna")),
        ] as [(String, String, AliasRemoval, [[UInt8]])] {
            let removal = try await shop.ledger.removeAlias(
                alias, from: id, in: Facts.scope, Self.correction(), at: Facts.day(2))
            #expect(removal == outcome)
            #expect(try await Self.ids(shop, "anna") == left)
        }
        #expect(try await Self.ids(shop, "K") == [])
        let page = try await shop.ledger.events()
        let events = page.events.filter { $0.kind == .aliasRemoved }
        #expect(events.count == 2 && events.allSatisfy { page.customerId(of: $0) == "anna" })
        #expect(events.first?.content?.correction == (try Self.correction()))
        try await shop.claim("K", shop.month())
        #expect(try await shop.owners() == ["K"])
    }

    @Test func `the first of two equivalent ids is taken off, and the second stays as it was`() async throws {
        let shop = try Shop()
        try await shop.claim("anna", shop.month())
        for alias in ["K", "\u{212A}"] { try await Self.merge(shop, alias, into: "anna") }
        let removal = try await shop.ledger.removeAlias(
            "K", from: "anna", in: Facts.scope, Self.correction(), at: Facts.day(2))
        #expect(removal == .removed)
        #expect(try await Self.ids(shop, "anna") == Self.bytes("anna", "\u{212A}"))
    }

    // MARK: Merges

    @Test(arguments: ["bert", "robert"])
    func `an undone merge gives back the ids and the purchases that came with it`(id: String) async throws {
        let shop = try await Self.shop()
        #expect(try await Self.purchases(shop, "robert") == ["1", "2", "3", "4"])
        let before = try await shop.ledger.events().events.count
        #expect(try await Self.undo(shop, id) == .undone(ids: ["bert", "robert"], purchases: 2))
        #expect(try await Self.ids(shop, "robert") == Self.bytes("bert", "robert"))
        #expect(try await Self.ids(shop, "anna") == Self.bytes("anna"))
        #expect(try await Self.purchases(shop, "bert") == ["3", "4"])
        #expect(try await Self.purchases(shop, "anna") == ["1", "2"])
        #expect(try await shop.isEstablished("bert") == true)
        let page = try await shop.ledger.events()
        let events = page.events.dropFirst(before)
        #expect(
            events.map(\.kind.known) == [.unlinked, .linked, .unlinked, .linked, .customerUnmerged])
        #expect(events.map { page.customerId(of: $0) } == ["anna", "bert", "anna", "bert", "bert"])
        #expect(events.allSatisfy { $0.content?.correction?.by == "5tnvindf" })
        #expect(try await Self.undo(shop, id) == .notMerged)
        #expect(try await Self.undo(shop, "anna") == .notMerged)
        #expect(try await Self.undo(shop, "nobody") == .unknownCustomer)
        // Both customers can be merged again, and the merge can be undone again.
        try await Self.merge(shop, "anna", into: "bert")
        #expect(try await Self.undo(shop, "anna") == .undone(ids: ["anna"], purchases: 2))
        #expect(try await Self.purchases(shop, "bert") == ["3", "4"])
    }

    @Test func `only that comes back which the merged customer still has`() async throws {
        let shop = try await Self.shop()
        try await shop.claim("cora", Self.book(shop, 3))
        try await shop.claim("anna", Self.book(shop, 5))
        _ = try await shop.ledger.removeAlias(
            "bert", from: "anna", in: Facts.scope, Self.correction(), at: Facts.day(2))
        #expect(try await Self.undo(shop, "robert") == .undone(ids: ["robert"], purchases: 1))
        #expect(try await Self.purchases(shop, "robert") == ["4"])
        #expect(try await Self.purchases(shop, "anna") == ["1", "2", "5"])
        #expect(try await Self.purchases(shop, "cora") == ["3"])
    }

    @Test func `a purchase that both had belongs to both again`() async throws {
        let shop = try Shop(.share)
        for id in ["anna", "bert"] { try await shop.claim(id, Self.book(shop, 1)) }
        try await Self.merge(shop, "bert", into: "anna")
        #expect(try await Self.undo(shop, "bert") == .undone(ids: ["bert"], purchases: 1))
        for id in ["anna", "bert"] { #expect(try await Self.purchases(shop, id) == ["1"]) }
    }

    @Test func `what a second merge brought too stays, also if its ids were taken off`() async throws {
        let shop = try Shop(.share)
        for (id, number) in [("anna", 2), ("bert", 1), ("cora", 1)] {
            try await shop.claim(id, Self.book(shop, number))
        }
        for id in ["bert", "cora"] { try await Self.merge(shop, id, into: "anna") }
        _ = try await shop.ledger.removeAlias(
            "cora", from: "anna", in: Facts.scope, Self.correction(), at: Facts.day(5))
        #expect(try await Self.undo(shop, "bert") == .undone(ids: ["bert"], purchases: 1))
        #expect(try await Self.purchases(shop, "anna") == ["1", "2"])
        #expect(try await Self.purchases(shop, "bert") == ["1"])
    }

    @Test func `a merge into a customer that was merged further is undone, each by its own ids`() async throws {
        for order in [["bert", "anna"], ["anna", "bert"]] {
            let shop = try await Self.shop()
            try await shop.claim("cora", Self.book(shop, 5))
            try await Self.merge(shop, "anna", into: "cora", day: 2)
            for id in order {
                guard case .undone = try await Self.undo(shop, id) else { Issue.record("\(id)"); return }
            }
            // If anna comes back first, bert comes back with her, and from her.
            #expect(try await Self.ids(shop, "cora") == Self.bytes("cora"))
            #expect(try await Self.ids(shop, "anna") == Self.bytes("anna"))
            #expect(try await Self.ids(shop, "bert") == Self.bytes("bert", "robert"))
            #expect(try await Self.purchases(shop, "anna") == ["1", "2"])
            #expect(try await Self.purchases(shop, "bert") == ["3", "4"])
            #expect(try await Self.purchases(shop, "cora") == ["5"])
        }
    }

    @Test(arguments: [["bert", "carl"], ["carl", "bert"]])
    func `a purchase that two merged customers brought goes back to each, and then leaves the remaining customer`(
        undone: [String]
    ) async throws {
        let shop = try Shop(.share)
        try await shop.claim("anna", Self.book(shop, 1))
        for id in ["bert", "carl"] { try await shop.claim(id, Self.book(shop, 2)) }
        for id in ["bert", "carl"] { try await Self.merge(shop, id, into: "anna") }
        #expect(try await Self.undo(shop, undone[0]) == .undone(ids: [undone[0]], purchases: 1))
        #expect(try await Self.purchases(shop, undone[0]) == ["2"])
        #expect(try await Self.purchases(shop, "anna") == ["1", "2"])
        #expect(try await Self.undo(shop, undone[1]) == .undone(ids: [undone[1]], purchases: 1))
        #expect(try await Self.purchases(shop, undone[1]) == ["2"])
        #expect(try await Self.purchases(shop, "anna") == ["1"])
    }

    @Test func `a purchase that came with a merge inside of others comes back with that merge alone`() async throws {
        let shop = try Shop(.share)
        for id in ["anna", "carl"] { try await shop.claim(id, Self.book(shop, 1)) }
        for (number, id) in [(2, "dora"), (3, "emil")] { try await shop.claim(id, Self.book(shop, number)) }
        for (alias, id) in [("carl", "dora"), ("dora", "emil"), ("emil", "anna")] {
            try await Self.merge(shop, alias, into: id)
        }
        #expect(try await Self.undo(shop, "carl") == .undone(ids: ["carl"], purchases: 1))
        #expect(try await Self.undo(shop, "dora") == .undone(ids: ["dora"], purchases: 1))
        #expect(try await Self.undo(shop, "emil") == .undone(ids: ["emil"], purchases: 1))
        for (id, purchases) in [("anna", ["1"]), ("carl", ["1"]), ("dora", ["2"]), ("emil", ["3"])] {
            #expect(try await Self.purchases(shop, id) == purchases, "\(id)")
        }
    }

    @Test func `the earliest merge of an id is undone, also if the clock was ahead at that merge`() async throws {
        let shop = try await Self.shop()
        try await shop.claim("cora", Self.book(shop, 5))
        // Bert was merged into anna on day 1.
        try await Self.merge(shop, "anna", into: "cora", day: 0.5)
        #expect(try await Self.undo(shop, "bert") == .undone(ids: ["bert", "robert"], purchases: 2))
        #expect(try await Self.ids(shop, "cora") == Self.bytes("cora", "anna"))
    }

    @Test func `after the erasure of the customer no merge is undone, and no record names it after 30 days`()
        async throws
    {
        let shop = try await Self.shop()
        try await shop.claim("cora", Self.book(shop, 5))
        try await Self.merge(shop, "cora", into: "anna")
        #expect(try await Self.records(shop) == ["merge", "merge", "merges"])
        _ = try await shop.ledger.delete("robert", in: Facts.scope, at: Facts.day(2))
        // The events of the merges still name bert and cora.
        #expect(try await Self.records(shop) == Array(repeating: "deletedCustomer", count: 3))
        #expect(try await Self.undo(shop, "bert") == .unknownCustomer)
        #expect(try await shop.ledger.eraseDeletedIds(at: Facts.day(31.9)) == 0)
        #expect(try await shop.ledger.eraseDeletedIds(at: Facts.day(32)) == 3)
        #expect(try await Self.records(shop) == [])
    }

    @Test func `the erasure of a customer whose merge was undone erases the record of that merge`() async throws {
        let shop = try await Self.shop()
        _ = try await Self.undo(shop, "bert")
        #expect(try await Self.records(shop) == ["merge"])
        _ = try await shop.ledger.delete("anna", in: Facts.scope, at: Facts.day(10))
        #expect(try await Self.records(shop) == ["merge", "deletedCustomer"])
        _ = try await shop.ledger.delete("bert", in: Facts.scope, at: Facts.day(10))
        #expect(try await Self.records(shop) == ["deletedCustomer", "deletedCustomer"])
    }

    @Test func `ids that are equivalent in Unicode come back to the right customers`() async throws {
        let shop = try Shop(.transfer)
        try await shop.claim("\u{212A}", Self.book(shop, 1))
        try await shop.claim("K", Self.book(shop, 2))
        try await Self.merge(shop, "K", into: "\u{212A}")
        #expect(try await Self.undo(shop, "\u{212A}") == .notMerged)
        #expect(try await Self.undo(shop, "K") == .undone(ids: ["K"], purchases: 1))
        #expect(try await Self.ids(shop, "K") == Self.bytes("K"))
        #expect(try await Self.ids(shop, "\u{212A}") == Self.bytes("\u{212A}"))
        #expect(try await Self.purchases(shop, "K") == ["2"])
        #expect(try await Self.purchases(shop, "\u{212A}") == ["1"])
    }

    @Test func `a merge with more purchases than a note lists cannot be undone, and says so`() async throws {
        let shop = try Shop(.transfer)
        try await shop.claim("anna", Self.book(shop, 1))
        for first in stride(from: 2, to: 503, by: 100) {
            let books = try await (first..<min(first + 100, 503)).async { try await Self.book(shop, $0) }
            _ = try await shop.ledger.record(books, claimedBy: "bert", at: Facts.day(1))
        }
        try await Self.merge(shop, "bert", into: "anna")
        #expect(try await Self.undo(shop, "bert") == .tooLarge)
        #expect(try await Self.ids(shop, "bert") == Self.bytes("anna", "bert"))
    }

    @Test func `a customer with many long ids can be merged, though not unmerged`() async throws {
        let shop = try Shop(.transfer)
        try await shop.claim("anna", Self.book(shop, 1))
        try await shop.claim("bert", Self.book(shop, 2))
        for number in 0..<50 {
            let alias = String(repeating: "\u{1}", count: 250) + "\(number)"
            try await Self.merge(shop, alias, into: "bert")
        }
        try await Self.merge(shop, "bert", into: "anna")
        #expect(try await Self.undo(shop, "bert") == .tooLarge)
    }
}

extension Range<Int> {
    fileprivate func async<Output>(_ make: (Int) async throws -> Output) async throws -> [Output] {
        var found: [Output] = []
        for number in self { found.append(try await make(number)) }
        return found
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import TestData
import Testing

/// Tests which ids of merged, unlinked and deleted customers the ledger and its events keep, and for how long.
@Suite struct FormerIdTests {
    private typealias Shop = ClaimPolicyTests.Shop
    private typealias Corrections = CustomerCorrectionTests

    private static func correction() throws -> Correction { try #require(Correction(by: "5tnvindf", reason: "why")) }

    private static func merge(_ shop: Shop, _ alias: String, into id: String, day: Double) async throws {
        #expect(try await shop.ledger.addAlias(alias, to: id, in: Facts.scope, at: Facts.day(day)))
    }

    private static func unlink(_ shop: Shop, _ alias: String, from id: String, day: Double) async throws {
        let removal = try await shop.ledger.removeAlias(
            alias, from: id, in: Facts.scope, correction(), at: Facts.day(day))
        #expect(removal == .removed)
    }

    private static func undo(_ shop: Shop, _ id: String, day: Double) async throws -> MergeUndoing {
        try await shop.ledger.undoMerge(of: id, in: Facts.scope, correction(), at: Facts.day(day))
    }

    private static func delete(_ shop: Shop, _ id: String, day: Double) async throws {
        #expect(try await shop.ledger.delete(id, in: Facts.scope, at: Facts.day(day)) != nil)
    }

    private static func purchases(_ shop: Shop, _ id: String) async throws -> [String] {
        let answer = try await shop.ledger.customer(id, in: Facts.scope, at: Facts.day(40))
        return answer?.purchases.map(\.transactionId).sorted() ?? []
    }

    /// Bert has the ids bert and rob, and the purchases 3 and 4. On day 1 he was merged into anna, who has 1.
    private static func shop() async throws -> Shop {
        let shop = try Shop(.transfer)
        for (number, id) in [(1, "anna"), (3, "bert"), (4, "bert")] {
            try await shop.claim(id, Corrections.book(shop, number))
        }
        try await merge(shop, "rob", into: "bert", day: 1)
        try await merge(shop, "bert", into: "anna", day: 1)
        return shop
    }

    /// The same, and on day 2 anna was merged into cora, who has the purchase 5.
    private static func nestedShop() async throws -> Shop {
        let shop = try await shop()
        try await shop.claim("cora", Corrections.book(shop, 5))
        try await merge(shop, "anna", into: "cora", day: 2)
        return shop
    }

    private static func page(_ shop: Shop, day: Double) async throws -> EventPage {
        try await shop.ledger.events(of: Facts.scope.bundleId, limit: 2000, at: Facts.day(day))
    }

    /// The kind of each event, the customer, and the former ids. Without the events that only tell what a customer has.
    private static func names(_ shop: Shop, day: Double) async throws -> [String] {
        let page = try await page(shop, day: day)
        let events = page.events.filter { event in
            event.kind != .aliasAdded && event.kind != .consentChanged && event.kind.known?.isAboutPayment == false
        }
        return events.map { event in
            let former = [event.mergedCustomer.flatMap { page.formerIds[$0] }] + (page.allDeletedIds(of: event) ?? [])
            return ([event.kind.rawValue, page.customerId(of: event) ?? "-"] + former.compactMap(\.self))
                .joined(separator: " ")
        }
    }

    /// All texts of the records about former customers after their housekeeping, and all ids in events.
    private static func remainder(_ shop: Shop, day: Double) async throws -> [String] {
        while try await shop.ledger.eraseDeletedIds(at: Facts.day(day)) > 0 {}
        var found: [String] = []
        for kind in ["merge", "merges", "deletedCustomer", "removedIds"] {
            let selection = RecordSelection(RecordKind(rawValue: kind))
            found += try await shop.ledger.storage.records(selection, limit: 2000).map {
                String(decoding: $0.payload, as: UTF8.self)
            }
        }
        return try await found + names(shop, day: day)
    }

    /// Whether an id occurs in the remainder: as a word of its own.
    private static func keeps(_ shop: Shop, _ id: String, day: Double) async throws -> Bool {
        try await remainder(shop, day: day).contains { text in
            text.split { !$0.isLetter && !$0.isNumber }.contains { $0 == id }
        }
    }

    @Test func `ids go by the clock of deliveries, also if the ledger has a simulator's time`() async throws {
        var shop = try await Self.shop()
        shop.ledger.wall = { Facts.day(2) }
        try await Self.unlink(shop, "rob", from: "anna", day: 800)
        try await Self.delete(shop, "anna", day: 900)
        #expect(try await Self.names(shop, day: 31.9).last == "customer.deleted anna anna bert rob")
        #expect(try await shop.ledger.eraseDeletedIds(at: Facts.day(31.9)) == 0)
        #expect(try await Self.names(shop, day: 32).last == "customer.deleted -")
        for id in ["anna", "bert", "rob"] { #expect(try await Self.keeps(shop, id, day: 32) == false) }
    }

    // MARK: Erasures

    @Test func `an id that was taken off, and was a customer of its own since, is nowhere after its erasure`()
        async throws
    {
        let shop = try await Self.shop()
        try await Self.unlink(shop, "bert", from: "anna", day: 2)
        try await shop.claim("bert", Corrections.book(shop, 6), day: 3)
        try await Self.delete(shop, "bert", day: 4)
        #expect(try await Self.keeps(shop, "bert", day: 33.9))
        #expect(try await Self.keeps(shop, "bert", day: 34) == false)
        #expect(try await Self.keeps(shop, "rob", day: 34))
        #expect(try await Self.keeps(shop, "anna", day: 34))
        try await Self.delete(shop, "anna", day: 35)
        for id in ["bert", "rob", "anna"] { #expect(try await Self.keeps(shop, id, day: 65) == false) }
    }

    @Test func `a customer whose merge was undone is nowhere after its erasure, also if there were later merges`()
        async throws
    {
        let shop = try await Self.nestedShop()
        #expect(try await Self.undo(shop, "bert", day: 3) == .undone(ids: ["bert", "rob"], purchases: 2))
        try await Self.delete(shop, "bert", day: 4)
        for id in ["bert", "rob"] { #expect(try await Self.keeps(shop, id, day: 34) == false) }
        #expect(try await Self.keeps(shop, "anna", day: 34))
    }

    @Test func `an id that was taken off a merged customer is nowhere after 30 days`() async throws {
        let shop = try await Self.nestedShop()
        for id in ["bert", "rob", "anna"] { try await Self.unlink(shop, id, from: "cora", day: 3) }
        for id in ["bert", "rob", "anna"] { #expect(try await Self.keeps(shop, id, day: 33) == false) }
        try await Self.merge(shop, "bert", into: "cora", day: 34)
        try await Self.delete(shop, "cora", day: 35)
        for id in ["bert", "cora"] { #expect(try await Self.keeps(shop, id, day: 65) == false) }
    }

    @Test func `a deletion names the ids that were taken off shortly before, unless they belong to somebody`()
        async throws
    {
        for (belongs, ids) in [(false, ["anna", "rob", "bert"]), (true, ["anna", "rob"])] {
            let shop = try await Self.shop()
            try await Self.unlink(shop, "bert", from: "anna", day: 2)
            if belongs { try await shop.claim("bert", Corrections.book(shop, 6), day: 3) }
            try await Self.delete(shop, "anna", day: 4)
            let page = try await Self.page(shop, day: 5)
            #expect(page.events.last.flatMap { page.allDeletedIds(of: $0) } == ids)
        }
        let shop = try await Self.nestedShop()
        try await Self.unlink(shop, "rob", from: "cora", day: 3)
        try await shop.claim("dora", Corrections.book(shop, 7), day: 3)
        try await Self.merge(shop, "cora", into: "dora", day: 3)
        try await Self.delete(shop, "dora", day: 32)
        #expect(try await Self.names(shop, day: 33).last == "customer.deleted dora dora cora anna bert rob")
    }

    @Test(.takesLong)
    func `the events of many merges name the merged customers until 30 days after the erasure`() async throws {
        let shop = try Shop()
        func customer(_ id: String) async throws {
            #expect(try await shop.ledger.recordConsent(true, of: id, in: Facts.scope, at: Facts.day(0)) != nil)
        }
        try await customer("anna")
        // More than the ledger remembers as merges, and than a deletion lists.
        let merged = (0..<503).map { "visitor\($0)" }
        for id in merged {
            try await customer(id)
            try await Self.merge(shop, id, into: "anna", day: 1)
        }
        try await Self.delete(shop, "anna", day: 2)
        #expect(
            try await Self.names(shop, day: 30.9).dropLast() == merged.map { "customer.merged - \($0)" }[...])
        #expect(try await Self.names(shop, day: 31.5).prefix(4).map { $0.split(separator: " ").count } == [2, 2, 2, 3])
        #expect(try await Self.remainder(shop, day: 32).allSatisfy { $0.hasSuffix(" -") })
    }

    // MARK: Names

    /// Not the next id: it may be the name of a customer that was merged before.
    @Test func `no event names a merged customer after its first id was taken off, until its merge is undone`()
        async throws
    {
        let shop = try await Self.shop()
        try await Self.unlink(shop, "rob", from: "anna", day: 2)
        #expect(try await Self.names(shop, day: 3).contains("customer.merged anna bert"))
        try await Self.merge(shop, "rob", into: "anna", day: 2)
        try await Self.unlink(shop, "bert", from: "anna", day: 2)
        #expect(
            try await Self.names(shop, day: 3).filter { !$0.hasPrefix("purchase.made") } == [
                "purchase.linked anna", "purchase.linked -", "purchase.linked -", "purchase.linked anna",
                "purchase.linked anna", "customer.merged anna", "customer.aliasRemoved anna",
                "customer.aliasRemoved anna",
            ])
        #expect(try await Self.undo(shop, "rob", day: 3) == .notMerged)
        let other = try await Self.shop()
        try await Self.unlink(other, "bert", from: "anna", day: 2)
        #expect(try await Self.names(other, day: 3).contains("customer.merged anna"))
        #expect(try await Self.undo(other, "rob", day: 3) == .undone(ids: ["rob"], purchases: 2))
        let names = try await Self.names(other, day: 4)
        #expect(names.contains("customer.merged anna rob") && names.last == "customer.unmerged rob")
        #expect(names.filter { $0 == "purchase.linked rob" }.count == 4)
    }

    @Test func `the event of a removal has the id for 30 days, each its own`() async throws {
        let shop = try await Self.shop()
        try await Self.unlink(shop, "bert", from: "anna", day: 2)
        try await Self.unlink(shop, "rob", from: "anna", day: 2)
        try await Self.merge(shop, "rob", into: "anna", day: 3)
        try await Self.unlink(shop, "rob", from: "anna", day: 4)
        for (day, ids) in [
            (4, ["bert", "rob", "rob"]), (31.9, ["bert", "rob", "rob"]), (32, [nil, nil, "rob"]),
            (34, [nil, nil, nil]),
        ] as [(Double, [String?])] {
            _ = try await shop.ledger.eraseDeletedIds(at: Facts.day(day))
            let page = try await Self.page(shop, day: day)
            let events = page.events.filter { $0.kind == .aliasRemoved }
            #expect(events.map { page.removedId(of: $0) } == ids, "day \(day)")
            #expect(events.allSatisfy { page.customerId(of: $0) == "anna" })
        }
        for event in try await Self.page(shop, day: 5).events {
            #expect(!String(decoding: event.body, as: UTF8.self).contains("rob"))
        }
    }

    @Test func `of more than 40 removals in 30 days the newest 40 have their ids`() async throws {
        let shop = try await Self.shop()
        for number in 0..<42 {
            // Ids of the greatest length that need the most bytes in JSON.
            let id = String(repeating: "\u{1}", count: 253) + "\(100 + number)"
            try await Self.merge(shop, id, into: "anna", day: 2)
            try await Self.unlink(shop, id, from: "anna", day: 2)
        }
        let page = try await Self.page(shop, day: 3)
        let ids = page.events.filter { $0.kind == .aliasRemoved }.map { page.removedId(of: $0) }
        #expect(ids.map { $0?.suffix(3) } == [nil, nil] + (102..<142).map { "\($0)" })
    }

    // MARK: Undone merges

    @Test func `a customer that came again with a later merge stays when an earlier merge is undone`() async throws {
        let shop = try await Self.nestedShop()
        _ = try await Self.undo(shop, "bert", day: 3)
        try await shop.claim("bert", Corrections.book(shop, 6), day: 4)
        try await Self.merge(shop, "bert", into: "cora", day: 5)
        #expect(try await Self.undo(shop, "anna", day: 6) == .undone(ids: ["anna"], purchases: 1))
        #expect(try await Self.purchases(shop, "anna") == ["1"])
        #expect(try await Self.purchases(shop, "rob") == ["3", "4", "5", "6"])
        #expect(try await Self.undo(shop, "rob", day: 7) == .undone(ids: ["bert", "rob"], purchases: 3))
        #expect(try await Self.purchases(shop, "bert") == ["3", "4", "6"])
        #expect(try await Self.purchases(shop, "cora") == ["5"])
    }

    @Test func `the later merge of a customer that came again is undone, and not the earlier merge around it`()
        async throws
    {
        let shop = try await Self.nestedShop()
        _ = try await Self.undo(shop, "bert", day: 3)
        try await Self.merge(shop, "bert", into: "cora", day: 5)
        #expect(try await Self.undo(shop, "bert", day: 6) == .undone(ids: ["bert", "rob"], purchases: 2))
        #expect(try await Self.purchases(shop, "cora") == ["1", "5"])
    }

    @Test func `an id that was taken off and came again with a second customer stays when the first merge is undone`()
        async throws
    {
        let shop = try await Self.shop()
        try await Self.unlink(shop, "rob", from: "anna", day: 2)
        try await shop.claim("rob", Corrections.book(shop, 6), day: 3)
        try await Self.merge(shop, "rob", into: "anna", day: 4)
        #expect(try await Self.undo(shop, "bert", day: 5) == .undone(ids: ["bert"], purchases: 2))
        #expect(try await Self.purchases(shop, "rob") == ["1", "6"])
        #expect(try await Self.undo(shop, "rob", day: 6) == .undone(ids: ["rob"], purchases: 1))
    }

    @Test func `a purchase that was lost and came again with a later merge stays when the first merge is undone`()
        async throws
    {
        let shop = try await Self.shop()
        try await shop.claim("cora", Corrections.book(shop, 3), day: 2)
        try await Self.merge(shop, "cora", into: "anna", day: 3)
        #expect(try await Self.undo(shop, "bert", day: 4) == .undone(ids: ["bert", "rob"], purchases: 1))
        #expect(try await Self.purchases(shop, "anna") == ["1", "3"])
        #expect(try await Self.undo(shop, "cora", day: 5) == .undone(ids: ["cora"], purchases: 1))
    }
}

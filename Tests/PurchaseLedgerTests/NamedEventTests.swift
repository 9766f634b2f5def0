// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization
import Testing

/// Tests the names of merged and deleted customers in events.
@Suite struct NamedEventTests {
    private typealias Shop = ClaimPolicyTests.Shop

    /// The kind of each event of the kinds that are about customers or owners, and the names in it.
    private static func names(_ ledger: Ledger, day: Double?) async throws -> [String] {
        let page = try await ledger.events(of: Facts.scope.bundleId, limit: 1000, at: day.map(Facts.day))
        return page.events.map { event in
            let merged = event.mergedCustomer.map { "merged \(page.formerIds[$0] ?? "-")" }
            let deleted = page.deletedId(of: event).map { "as \($0)" }
            let words = [event.kind.rawValue, page.customerId(of: event) ?? "-", merged, deleted]
            return words.compactMap(\.self).joined(separator: " ")
        }.filter { text in ["subscription", "transaction", "customer.aliasAdded"].allSatisfy { !text.hasPrefix($0) } }
    }

    @Test func `events name a customer as before its merge, and a merge names both customers`() async throws {
        let shop = try Shop()
        try await shop.claim("bert", shop.month())
        _ = try await shop.ledger.addAlias("robert", to: "bert", in: Facts.scope, at: Facts.day(1))
        try await shop.claim("anna", shop.signed.evidence(receipt: [], created: 3))
        _ = try await shop.ledger.addAlias("robert", to: "anna", in: Facts.scope, at: Facts.day(1))
        #expect(
            try await Self.names(shop.ledger, day: 2) == [
                "purchase.linked bert", "purchase.linked anna", "customer.merged anna merged bert",
            ])
        try await shop.claim("cora", shop.signed.evidence(receipt: [], created: 3))
        _ = try await shop.ledger.addAlias("anna", to: "cora", in: Facts.scope, at: Facts.day(2))
        let names = [
            "purchase.linked bert", "purchase.linked anna", "customer.merged anna merged bert",
            "purchase.linked cora", "customer.merged cora merged anna",
        ]
        #expect(try await Self.names(shop.ledger, day: 2) == names)
        #expect(try await Self.names(shop.ledger, day: nil) == names)
        let correction = try #require(Correction(by: "x", reason: "y"))
        _ = try await shop.ledger.undoMerge(of: "bert", in: Facts.scope, correction, at: Facts.day(3))
        #expect(
            try await Self.names(shop.ledger, day: 3) == [
                "purchase.linked bert", "purchase.linked anna", "customer.merged anna merged bert",
                "purchase.linked cora", "customer.merged cora merged anna", "purchase.unlinked cora",
                "purchase.linked bert", "customer.unmerged bert",
            ])
    }

    @Test func `only the deletion names a deleted customer, for 30 days`() async throws {
        let shop = try Shop()
        try await shop.claim("anna", shop.month())
        _ = try await shop.ledger.addAlias("ann", to: "anna", in: Facts.scope, at: Facts.day(1))
        _ = try await shop.ledger.delete("ann", in: Facts.scope, at: Facts.day(2))
        let named = ["purchase.linked -", "purchase.unlinked -", "customer.deleted anna as ann"]
        let unnamed = named.dropLast() + ["customer.deleted -"]
        #expect(try await Self.names(shop.ledger, day: 2) == named)
        #expect(try await Self.names(shop.ledger, day: 31.99) == named)
        // The record is still stored, and readers ignore it.
        #expect(try await Self.names(shop.ledger, day: 32) == Array(unnamed))
        #expect(try await Self.names(shop.ledger, day: nil) == Array(unnamed))
        // A new customer with the ids is another customer.
        try await shop.claim("anna", shop.month())
        #expect(try await Self.names(shop.ledger, day: 32).prefix(3) == unnamed[...])
    }

    @Test func `the deletion names all ids that the customer had, also those of merged customers`() async throws {
        let shop = try Shop()
        try await shop.claim("bert", shop.month())
        try await shop.claim("anna", shop.signed.evidence(receipt: [], created: 3))
        _ = try await shop.ledger.addAlias("bert", to: "anna", in: Facts.scope, at: Facts.day(1))
        _ = try await shop.ledger.delete("bert", in: Facts.scope, at: Facts.day(2))
        let page = try await shop.ledger.events(of: Facts.scope.bundleId, limit: 1000, at: Facts.day(3))
        let deletion = try #require(page.events.last { $0.kind == .customerDeleted })
        #expect(page.allDeletedIds(of: deletion) == ["anna", "bert"] && page.deletedId(of: deletion) == "bert")
    }

    @Test func `a page whose customers all have ids costs no load, and one with former customers costs one`()
        async throws
    {
        let loads = Mutex(0)
        var storage = InterceptedStorage()
        let shop = try Shop()
        storage.inner = shop.ledger.storage
        storage.afterLoad = { _ in loads.withLock { $0 += 1 } }
        let ledger = Ledger(storage: storage, rules: shop.ledger.rules)
        func count() async throws -> Int {
            loads.withLock { $0 = 0 }
            _ = try await ledger.events(of: Facts.scope.bundleId, limit: 100, at: Facts.day(3))
            return loads.withLock(\.self)
        }
        try await shop.claim("anna", shop.month())
        try await shop.notify(shop.signed.evidence(notification: shop.signed.notification("TEST", signed: 1)))
        #expect(try await count() == 0)
        try await shop.claim("bert", shop.signed.evidence(receipt: [], created: 3))
        _ = try await ledger.addAlias("anna", to: "bert", in: Facts.scope, at: Facts.day(2))
        #expect(try await count() == 1)
        _ = try await ledger.delete("bert", in: Facts.scope, at: Facts.day(2))
        #expect(try await count() == 1)
    }

    @Test func `the body of an event names no customer`() async throws {
        let shop = try Shop()
        try await shop.claim("anna", shop.month())
        try await shop.claim("bert", shop.signed.evidence(receipt: [], created: 3))
        _ = try await shop.ledger.addAlias("bert", to: "anna", in: Facts.scope, at: Facts.day(1))
        _ = try await shop.ledger.delete("bert", in: Facts.scope, at: Facts.day(2))
        for event in try await shop.ledger.events().events {
            let body = String(decoding: event.body, as: UTF8.self)
            #expect(!body.contains("anna") && !body.contains("bert"))
        }
    }
}

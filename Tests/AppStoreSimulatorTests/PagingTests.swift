// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import TestData
import TestWorld
import Testing

/// Lists that come in pages, over random histories.
@Suite struct PagingTests {
    /// A random history, and a customer of it with more than a page of transactions.
    private static func busyStore(seed: UInt64) throws -> (StoreFixture, StoreCustomer) {
        var world = try RandomWorld(seed: seed, customers: 3).world
        try world.fixBilling(of: "customer 0")
        for number in 0..<50 {
            let id = try world.buy("coins", by: "customer 0")
            if number % 3 == 0, let id { try world.refund(id) }
        }
        return (try StoreFixture(world), try #require(world.customers["customer 0"]))
    }

    /// Reads all pages; `between` happens after each.
    private static func read(
        _ fixture: inout StoreFixture, _ path: String, from revision: String? = nil,
        between: (inout StoreFixture) throws -> Void = { _ in }
    ) throws -> (ids: [String], revision: String?) {
        var (ids, revision): ([String], String?) = ([], revision)
        for _ in 0..<1000 {
            let separator = path.contains("?") ? "&" : "?"
            let answer = try fixture.call("GET \(path)" + (revision.map { "\(separator)revision=\($0)" } ?? ""))
            #expect(answer.status == 200 && answer.transactionIds.count <= 20)
            let hasMore = answer.json["hasMore"] == .bool(true)
            #expect(!hasMore || answer.transactionIds.count == 20)
            ids += answer.transactionIds
            revision = answer.json["revision"]?.string
            if !hasMore { return (ids, revision) }
            try between(&fixture)
        }
        Issue.record("The pages never end")
        return (ids, revision)
    }

    @Test(arguments: Seeds.first(1, soak: 20))
    func `pages are the whole history in its order, in both directions`(seed: UInt64) throws {
        var (fixture, customer) = try Self.busyStore(seed: seed)
        let all = fixture.store.world.history(of: customer.name).compactMap(\.transaction.transactionId)
        let path = "/inApps/v2/history/\(customer.appTransactionId)"
        #expect(all.count > 40)
        #expect(try Self.read(&fixture, path).ids == all)
        #expect(try Self.read(&fixture, path + "?sort=DESCENDING").ids == all.reversed())
    }

    @Test(arguments: Seeds.first(1, soak: 20))
    func `each filter lets through what it says and nothing else`(seed: UInt64) throws {
        var (fixture, customer) = try Self.busyStore(seed: seed)
        let all = fixture.store.world.history(of: customer.name).map(\.transaction)
        let middle = try #require(all[all.count / 2].purchaseDate)
        let filters: [(String, (JWSTransactionDecodedPayload) -> Bool)] = [
            ("startDate=\(middle.milliseconds)", { ($0.purchaseDate ?? middle) >= middle }),
            ("endDate=\(middle.milliseconds)", { ($0.purchaseDate ?? middle) < middle }),
            ("productId=coins&productId=gold.month", { $0.productId == "coins" || $0.productId == "gold.month" }),
            ("productType=NON_CONSUMABLE", { $0.type == .nonConsumable }),
            ("subscriptionGroupIdentifier=21000001", { $0.subscriptionGroupIdentifier == "21000001" }),
            ("inAppOwnershipType=PURCHASED", { $0.inAppOwnershipType == .purchased }),
            ("inAppOwnershipType=FAMILY_SHARED", { $0.inAppOwnershipType == .familyShared }),
            ("revoked=true", { $0.revocationDate != nil }),
            ("revoked=False&productType=AUTO_RENEWABLE", { $0.revocationDate == nil && $0.expiresDate != nil }),
            ("excludeRevoked=true", { $0.revocationDate == nil }),
        ]
        for (query, passes) in filters {
            let ids = try Self.read(&fixture, "/inApps/v2/history/\(customer.appTransactionId)?\(query)").ids
            #expect(ids == all.filter(passes).compactMap(\.transactionId), "\(query)")
        }
    }

    @Test(arguments: Seeds.first(2, soak: 50))
    func `a history read in pages while the world changes misses nothing`(seed: UInt64) throws {
        var (fixture, customer) = try Self.busyStore(seed: seed)
        let path = "/inApps/v2/history/\(customer.appTransactionId)"
        var random = SeededRandom(seed: seed)
        var read: [String: JWSTransactionDecodedPayload] = [:]
        var revision: String?
        // Days later, the last revision still works.
        for _ in 0..<4 {
            revision = try Self.read(&fixture, path, from: revision) { fixture in
                fixture.store.world.change(customer.name, &random)
                fixture.wait(minutes: Int64.random(in: 0...20_000, using: &random))
            }.revision
            fixture.wait(minutes: 60 * 24 * 40)
        }
        // A client that keeps the newest of each id has all of them, as they are now.
        var token: String?
        repeat {
            let answer = try fixture.call("GET \(path)" + (token.map { "?revision=\($0)" } ?? ""))
            for id in answer.transactionIds { read[id] = fixture.store.world.transaction(id) }
            token = answer.json["hasMore"] == .bool(true) ? answer.json["revision"]?.string : nil
        } while token != nil
        let all = fixture.store.world.history(of: customer.name).compactMap(\.transaction.transactionId)
        #expect(Set(read.keys) == Set(all))
    }

    @Test(arguments: Seeds.first(2, soak: 50))
    func `a client that keeps what pages bring has the newest state of everything`(seed: UInt64) throws {
        var fixture = try StoreFixture(RandomWorld(seed: seed, customers: 0).world)
        try fixture.store.world.addCustomer("ann")
        let app = try #require(fixture.store.world.customers["ann"]?.appTransactionId)
        var random = SeededRandom(seed: seed)
        var (kept, revision): ([String: JSONValue], String?) = ([:], nil)
        for _ in 0..<50 { try fixture.store.world.buy("coins", by: "ann") }
        for _ in 0..<60 {
            for _ in 0..<10 { fixture.store.world.change("ann", &random) }
            fixture.wait(minutes: Int64.random(in: 0...30_000, using: &random))
            // One page at a time: the world changes between them.
            let answer = try fixture.call(
                "GET /inApps/v2/history/\(app)" + (revision.map { "?revision=\($0)" } ?? ""))
            revision = answer.json["revision"]?.string
            keep(answer, &kept)
        }
        while true {
            let answer = try fixture.call("GET /inApps/v2/history/\(app)?revision=\(revision ?? "")")
            revision = answer.json["revision"]?.string
            keep(answer, &kept)
            if answer.json["hasMore"] != .bool(true) { break }
        }
        let present = try fixture.store.world.history(of: "ann").map(\.transaction).map { try JSONValue(encoding: $0) }
        #expect(present.count > 50)
        #expect(Set(kept.values) == Set(present))
    }

    private func keep(_ answer: StoreResponse, _ kept: inout [String: JSONValue]) {
        for token in answer.json["signedTransactions"]?.array ?? [] {
            guard let jws = try? JWS(Array((token.string ?? "").utf8)), let json = JSONValue(readable: jws.payload),
                var payload = try? json.decode(JWSTransactionDecodedPayload.self), let id = payload.transactionId
            else { continue }
            payload.signedDate = nil
            kept[id] = try? JSONValue(encoding: payload)
        }
    }

    @Test func `refunds come in the order of their dates, also those that are granted between pages`() throws {
        var world = try RandomWorld(seed: 2, customers: 0).world
        try world.addCustomer("ann")
        var bought: [String] = []
        for _ in 0..<60 { if let id = try world.buy("coins", by: "ann") { bought.append(id) } }
        var fixture = try StoreFixture(world)
        let app = try #require(fixture.store.world.customers["ann"]?.appTransactionId)
        var expected: [String] = []
        // At one instant, so that the date alone does not give the order.
        for id in bought.prefix(45).reversed() {
            try fixture.store.world.refund(id)
            expected.append(id)
        }
        var granted = bought.suffix(15)
        let first = try Self.read(&fixture, "/inApps/v2/refund/lookup/\(app)") { fixture in
            for _ in 0..<2 {
                guard let id = granted.popLast() else { return }
                try fixture.store.world.refund(id)
                expected.append(id)
            }
        }
        #expect(first.ids == expected)
        fixture.wait(minutes: 10_000)
        try fixture.store.world.reverseRefund(expected[0])
        if let id = granted.popLast() { try fixture.store.world.refund(id) }
        let later = try Self.read(&fixture, "/inApps/v2/refund/lookup/\(app)", from: first.revision)
        #expect(later.ids.count == 1)
        let version1 = try fixture.call("GET /inApps/v1/refund/lookup/\(bought[0])").transactionIds
        #expect(version1.count == min(50, expected.count))
    }

    @Test func `version 1 of the history leaves finished consumables out`() throws {
        var fixture = try StoreFixture.shop()
        for name in ["coins", "sub"] { _ = try fixture.call("POST /inApps/v1/transactions/{\(name)}/finish") }
        let version1 = try fixture.call("GET /inApps/v1/history/{sub}").transactionIds
        let version2 = try fixture.call("GET /inApps/v2/history/{sub}").transactionIds
        #expect(Set(version2).subtracting(version1) == [fixture.names["coins"]])
    }
}

extension World {
    /// Something that changes a customer's transactions, if it is possible.
    fileprivate mutating func change(_ name: String, _ random: inout SeededRandom) {
        let id = history(of: name).randomElement(using: &random)?.transaction.transactionId ?? ""
        let product = catalogue.products.randomElement(using: &random)?.id ?? ""
        switch Int.random(in: 0..<8, using: &random) {
        case 0..<3: _ = try? buy(product, by: name)
        case 3: try? breakBilling(of: name)
        case 4, 5: try? fixBilling(of: name)
        case 6: try? refund(id)
        default: try? reverseRefund(id)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import HTTPTypes
import PurchaseLedger
import PurchaseServer
import ReceiptCoding
import TestWorld
import Testing

/// Purchases that the configuration refuses, and purchases that many customers present, over HTTP.
@Suite struct RefusedPurchaseTests {
    private typealias World = LedgerRoutesTests.World

    private static func book(_ world: World, _ id: String, type: ProductType = .nonConsumable) throws -> String {
        try world.store.sign(TestStore.transaction(id, product: "book", type: type, until: nil))
    }

    private static func submit(_ world: World, _ documents: [String], by id: String = "anna") async throws -> JSONValue
    {
        let list = documents.map { "\"\($0)\"" }.joined(separator: ",")
        return try await world.send(.post, "/v1/customers/\(id)/purchases", "{\"documents\":[\(list)]}").1
    }

    @Test func `a refused purchase is refused on every route, and says so`() async throws {
        let world = try await World(refused: ["1", "3", "4"])
        let documents = [
            try world.transaction(), try Self.book(world, "3"), try Self.book(world, "4", type: .consumable),
            try Self.book(world, "5"),
        ]
        let customer = try #require(try await Self.submit(world, documents)["customer"])
        #expect(customer["entitlements"]?.array == [])
        let subscription = try #require(customer["subscriptions"]?.array?.first)
        #expect(subscription["status"]?.string == "revoked" && subscription["statusCode"]?.integer == 5)
        #expect(subscription["hasAccess"] == .bool(false) && subscription["refused"] == .bool(true))
        let purchases = customer["purchases"]?.array ?? []
        #expect(purchases.map { $0["refused"] == .bool(true) } == [true, true, true, false])
        #expect(purchases.last?["refused"] == nil)
        #expect(purchases.map { $0["revokedQuantity"]?.integer } == [nil, nil, 1, nil])
        // Nothing is invented: the App Store signed no refund.
        #expect(purchases.allSatisfy { $0["revocationDate"] == .null })
        let coins = customer["consumables"]?.array?.first
        #expect(coins?["revokedQuantity"]?.integer == 1 && coins?["refused"] == .bool(true))
        #expect(try await world.send(.get, "/v1/customers/anna/entitlements/pro").1["isActive"] == .bool(false))
        let (_, one) = try await world.send(.get, "/v1/subscriptions/1")
        #expect(one["subscription"] == subscription && one["transactions"]?.array?.first?["refused"] == .bool(true))
        for (id, isRefused) in [("1", true), ("3", true), ("5", false)] {
            let (_, transaction) = try await world.send(.get, "/v1/transactions/\(id)")
            #expect((transaction["refused"] == .bool(true)) == isRefused)
        }
        let (_, events) = try await world.send(.get, "/v1/events")
        for event in events["items"]?.array ?? [] where event["after"]?["status"] != nil {
            let isActive = event["after"]?["status"]?.string == "active"
            #expect(isActive == (event["originalTransactionId"]?.string == "5"), "\(event.compactText)")
        }
    }

    @Test func `the configuration's refused purchases are part of the ledger's rules`() throws {
        var (configuration, app) = (ServerConfiguration(), AppConfiguration(AppIdentity(bundleId: "com.example")))
        app.refusedPurchases = ["1"]
        app.catalogue.staleLeeway = .seconds(7)
        configuration.apps = [app]
        let service = LedgerService(
            configuration, storage: MemoryLedgerStorage(), verifier: try TestStore().verifier(in: []))
        let expected = Catalogue(staleLeeway: .seconds(7), refusedPurchases: ["1"])
        #expect(service.ledger.rules.catalogues == ["com.example": expected])
    }

    /// The refused ids, and the status of a receipt with purchase 1. The ledger knows its renewal 2, its new original
    /// id 100, and a newer receipt that also has purchase 9.
    @Test(arguments: [("1", 21010), ("2", 21010), ("100", 21010), ("9", 21010), ("3", 0)])
    func `verifyReceipt refuses a purchase by the rule of all other answers`(
        refused: String, status: Int64
    )
        async throws
    {
        var world = try await World()
        let tokens = [
            try world.transaction(),
            try world.store.sign(TestStore.transaction("2", original: "1", from: 30, until: 60)),
            try world.store.sign(
                TestStore.transaction("2", original: "100", from: 30, until: 60, signed: 1) {
                    $0.previousOriginalTransactionId = "1"
                }),
        ]
        _ = try await Self.submit(world, tokens)
        let receipts = [
            TestStore.receipt([TestStore.purchase("1"), TestStore.purchase("9", product: "other")], created: 2),
            TestStore.receipt([TestStore.purchase("1")], created: 1),
        ]
        func ask(_ receipt: AppReceipt) async throws -> Int64? {
            let body = #"{"receipt-data":"\#(Base64.encode(try world.store.sign(receipt)))"}"#
            return try await world.send(.post, "/verifyReceipt", body, key: nil).1["status"]?.integer
        }
        for receipt in receipts { #expect(try await ask(receipt) == 0) }
        let rules = LedgerRules(catalogues: ["com.example": Catalogue(refusedPurchases: [refused])])
        world.server = try world.server(keeping: Ledger(storage: world.storage, rules: rules))
        #expect(try await ask(receipts[1]) == status)
    }

    // MARK: - Purchases that many customers present

    @Test func `a server key sees how many customers presented a purchase, and a client key does not`() async throws {
        let world = try await World(policy: .share)
        let documents = [
            try world.transaction(), try Self.book(world, "3"), try Self.book(world, "4", type: .consumable),
        ]
        #expect(try await Self.submit(world, documents)["claimants"] == nil)
        var answer = JSONValue.null
        for id in ["bert", "cora", "dora"] { answer = try await Self.submit(world, documents, by: id) }
        #expect(answer["claimants"]?.integer == 4)
        let path = "/v1/customers/anna"
        for list in ["subscriptions", "purchases", "consumables"] {
            let (server, client) = (
                try await world.send(.get, path).1[list]?.array,
                try await world.send(.get, path, key: .client).1[list]?.array
            )
            #expect(server?.isEmpty == false && server?.allSatisfy { $0["claimants"]?.integer == 4 } == true)
            #expect(client?.isEmpty == false && client?.allSatisfy { $0["claimants"] == nil } == true)
        }
        let body = #"{"document":"\#(documents[0])"}"#
        let (_, client) = try await world.send(.post, "\(path)/purchases", body, key: .client)
        #expect(client["claimants"] == nil)
    }
}

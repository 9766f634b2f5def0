// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import PurchaseLedger
import PurchaseServer
import ReceiptCoding
import TestWorld
import Testing

/// Corrections over HTTP: each needs a server key and a reason, and its events have both.
@Suite struct CorrectionRoutesTests {
    private typealias World = LedgerRoutesTests.World

    /// A server on which anna has the subscription 1, with the policy under which no claim takes it from her.
    private static func world() async throws -> World {
        let world = try await World(policy: .keep)
        #expect(try await world.submit().0 == .ok)
        return world
    }

    /// The purchase of the app itself, and purchases of Xcode.
    @Test(arguments: [("app:700", 404), ("app:bought:1700000000", 404), ("7@1700000000", 404), ("MV5G8XK2PQ/x", 400)])
    func `a purchase has the name that answers and events give it`(id: String, expected: Int) async throws {
        let world = try await Self.world()
        let path = "/v1/transactions/\(id.replacing("/", with: "%2F"))"
        for action in ["deny", "allow"] {
            let (status, answer) = try await world.send(.post, "\(path)/\(action)", #"{"reason":"a mistake"}"#)
            #expect(status.code == expected, "\(answer.compactText)")
        }
    }

    @Test func `a server key moves a purchase that the policy keeps, and the answer and the events name the owner`()
        async throws
    {
        let world = try await Self.world()
        let body = #"{"customers":["bert","cora"],"reason":"a mistake","new":true}"#
        let (status, answer) = try await world.send(.post, "/v1/transactions/1/move", body)
        #expect(status == .ok && answer["originalTransactionId"]?.string == "1" && answer["deniedAt"] == .null)
        #expect(answer["owners"]?.array?.map { $0["customer"]?.string } == ["bert", "cora"])
        #expect(answer["owners"]?.array?.allSatisfy { $0["reason"]?.string == "correction" } == true)
        for (id, count) in [("anna", 0), ("bert", 1), ("cora", 1)] {
            let customer = try await world.send(.get, "/v1/customers/\(id)").1
            #expect(customer["entitlements"]?.array?.count == count)
        }
        let events = try await world.send(.get, "/v1/events").1["items"]?.array?.suffix(3) ?? []
        #expect(events.map { $0["kind"]?.string } == ["purchase.unlinked", "purchase.linked", "purchase.linked"])
        #expect(events.map { $0["customer"]?.string } == ["anna", "bert", "cora"])
        #expect(events.allSatisfy { $0["detail"]?.string == "correction" })
        #expect(events.allSatisfy { $0["correction"]?["reason"]?.string == "a mistake" })
        let key = try await world.ledger.apiKeys().items.first { $0.role == .server }
        #expect(events.allSatisfy { $0["correction"]?["by"]?.string == key?.id })
        for id in ["annna", "xnna"] {
            let typed = #"{"customers":["\#(id)"],"reason":"x"}"#
            let (unknown, refusal) = try await world.send(.post, "/v1/transactions/1/move", typed)
            #expect(unknown == .notFound && refusal["error"]?["code"]?.string == "unknownCustomer")
            let message = refusal["error"]?["message"]?.string ?? ""
            #expect(message.contains("Did you mean “anna”?"), "\(message)")
        }
        #expect(try await world.send(.post, "/v1/transactions/9/move", body).0 == .notFound)
    }

    @Test func `a denied purchase is refused in answers and by verifyReceipt, until it is allowed`() async throws {
        let world = try await Self.world()
        let receipt = Base64.encode(try world.store.sign(TestStore.receipt([TestStore.purchase()])))
        func status() async throws -> Int64? {
            let body = #"{"receipt-data":"\#(receipt)"}"#
            return try await world.send(.post, "/verifyReceipt", body, key: nil).1["status"]?.integer
        }
        for (verb, isDenied) in [("deny", true), ("allow", false)] {
            let (code, answer) = try await world.send(
                .post, "/v1/transactions/1/\(verb)", #"{"reason":"chargeback"}"#)
            #expect(code == .ok && (answer["deniedAt"]?.integer != nil) == isDenied)
            #expect((answer["deniedBecause"]?.string == "chargeback") == isDenied)
            let customer = try await world.send(.get, "/v1/customers/anna").1
            #expect((customer["subscriptions"]?.array?.first?["refused"] == .bool(true)) == isDenied)
            #expect(customer["entitlements"]?.array?.isEmpty == isDenied)
            #expect(try await status() == (isDenied ? 21010 : 0))
        }
        #expect(try await world.send(.post, "/v1/transactions/9/deny", #"{"reason":"x"}"#).0 == .notFound)
    }

    @Test func `verifyReceipt refuses a receipt with a denied purchase that is no subscription`() async throws {
        let world = try await World()
        let book = try world.store.sign(TestStore.transaction("5", product: "book", type: .nonConsumable, until: nil))
        try await world.submit(book)
        let purchase = TestStore.purchase("5", product: "book", until: nil)
        let receipt = Base64.encode(try world.store.sign(TestStore.receipt([purchase])))
        for (verb, status) in [("allow", 0), ("deny", 21010)] as [(String, Int64)] {
            _ = try await world.send(.post, "/v1/transactions/5/\(verb)", #"{"reason":"x"}"#)
            let answer = try await world.send(.post, "/verifyReceipt", #"{"receipt-data":"\#(receipt)"}"#, key: nil).1
            #expect(answer["status"]?.integer == status)
        }
    }

    @Test func `an alias is taken off, and a merge undone; other ids are refused with the reason`() async throws {
        let world = try await Self.world()
        let second = try world.store.sign(TestStore.transaction("2"))
        try await world.submit(second, for: "bert")
        for alias in ["bert", "ann"] {
            _ = try await world.send(.post, "/v1/customers/anna/aliases", #"{"alias":"\#(alias)"}"#)
        }
        let unlink = "/v1/customers/bert/unlink"
        for (alias, code) in [("anna", "correctionRefused"), ("nobody", "correctionRefused"), ("ann", nil)] {
            let (status, answer) = try await world.send(.post, unlink, #"{"alias":"\#(alias)","reason":"x"}"#)
            #expect(status == (code == nil ? .ok : .conflict) && answer["error"]?["code"]?.string == code)
            if code == nil { #expect(answer["ids"]?.array?.map(\.string) == ["anna", "bert"]) }
        }
        let reason = #"{"reason":"not the same person"}"#
        #expect(try await world.send(.post, "/v1/customers/anna/unmerge", reason).0 == .conflict)
        #expect(try await world.send(.post, "/v1/customers/nobody/unmerge", reason).0 == .notFound)
        let (status, bert) = try await world.send(.post, "/v1/customers/bert/unmerge", reason)
        #expect(status == .ok && bert["ids"]?.array?.map(\.string) == ["bert"])
        #expect(bert["purchases"]?.array?.map { $0["transactionId"]?.string } == ["2"])
        let events = try await world.send(.get, "/v1/events?kind=customer.unmerged,customer.aliasRemoved").1
        #expect(events["items"]?.array?.map { $0["customer"]?.string } == ["anna", "bert"])
        #expect(events["items"]?.array?.map { $0["removedId"] } == [.string("ann"), nil])
        // What a follower of the id must learn: that bert's purchases went to anna, and that ann names nobody.
        for (id, kinds) in [
            ("bert", ["customer.merged", "customer.unmerged"]), ("ann", ["customer.aliasRemoved"]),
            ("anna", ["customer.merged", "customer.aliasAdded", "customer.aliasRemoved"]),
        ] {
            let found = try await world.send(.get, "/v1/events?customer=\(id)").1["items"]?.array ?? []
            let names = found.compactMap { $0["kind"]?.string }
            #expect(names.filter { $0.hasPrefix("customer.") } == kinds, "\(id)")
        }
    }
}

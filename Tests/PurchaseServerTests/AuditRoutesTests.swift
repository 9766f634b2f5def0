// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import HTTPTypes
import Logging
import PurchaseLedger
import PurchaseServer
import TestWorld
import Testing

/// The audit list over HTTP: which requests and commands are on it, and what their entries say.
@Suite struct AuditRoutesTests {
    private typealias World = LedgerRoutesTests.World

    private static func entries(_ world: World, _ query: String = "") async throws -> [JSONValue] {
        try await world.send(.get, "/v1/audit\(query)").1["items"]?.array ?? []
    }

    private static let customer = "/v1/customers/anna"
    private static let grant = #"{"id":"x-1","entitlement":"gold","forever":true,"why":"outage","by":"Eva"}"#

    /// Requests in their order, each with the entry that it adds, without the members that all entries have.
    private static let requests: [(HTTPRequest.Method, String, body: String, entry: String?)] = [
        (
            .post, customer + "/grants", grant,
            #""by":"Eva","operation":"makeGrant","customerId":"anna","subject":"x-1 gold","reason":"outage","#
                + #""outcome":"grant.made""#
        ),
        (.post, customer + "/grants", grant, nil),
        (.post, customer + "/grants", grant.replacing("gold", with: "silver"), nil),
        (
            .post, customer + "/grants/x-1/end", #"{"by":"Leo"}"#,
            #""by":"Leo","operation":"endGrant","customerId":"anna","subject":"x-1","outcome":"grant.ended""#
        ),
        (.post, customer + "/grants/x-1/end", "", nil), (.post, customer + "/grants/x-2/end", "", nil),
        (
            .patch, customer + "/attributes", #"{"attributes":{"$email":{"value":"anna@example.com"}}}"#,
            #""operation":"setAttributes","customerId":"anna","outcome":"customer.attributesChanged""#
        ),
        (
            .put, customer + "/consent", #"{"customerConsented":true}"#,
            #""operation":"recordConsent","customerId":"anna","outcome":"customer.consentChanged""#
        ),
        (
            .post, customer + "/aliases", #"{"alias":"ann"}"#,
            #""operation":"addAlias","customerId":"anna","outcome":"customer.aliasAdded""#
        ),
        (.post, customer + "/aliases", #"{"alias":"ann"}"#, nil),
        (
            .post, "/v1/transactions/1/deny", #"{"reason":"chargeback"}"#,
            #""operation":"denyPurchase","customerId":"anna","subject":"1","reason":"chargeback","outcome":"#
        ),
        (.get, customer, "", nil), (.get, "/v1/events", "", nil),
        (
            .post, "/v1/transactions/1/move", #"{"customers":["bert"],"reason":"a mistake","new":true}"#,
            #""operation":"movePurchase","customerId":"anna","subject":"1","reason":"a mistake","outcome":"#
        ),
        (.post, "/v1/transactions/9/move", #"{"customers":["bert"],"reason":"a mistake"}"#, nil),
        (.delete, customer, "", #""operation":"deleteCustomer","outcome":"customer.deleted""#),
        (.delete, customer, "", nil),
    ]

    @Test func `each request that changes something adds one entry, and a submission none`() async throws {
        let world = try await World()
        for key in [.client, .server] as [APIKey.Role] { #expect(try await world.submit(key: key).0 == .ok) }
        #expect(try await Self.entries(world).isEmpty)
        for (method, path, body, expected) in Self.requests {
            let before = try await Self.entries(world)
            let (status, answer) = try await world.send(method, path, body)
            #expect(status.code < 300 || expected == nil, "\(path) \(answer.compactText)")
            let new = try await Self.entries(world).filter { entry in !before.contains { $0["id"] == entry["id"] } }
            #expect(new.count == (expected == nil ? 0 : 1), "\(method) \(path): \(new.map(\.compactText))")
            guard let expected, let entry = new.first?.compactText else { continue }
            #expect(entry.contains(#""keyName":"server","role":"server""#) && entry.contains(expected), "\(entry)")
        }
        let list = try await Self.entries(world)
        let bert = try await Self.entries(world, "?customerId=bert")
        #expect(bert.map { $0["operation"]?.string } == ["movePurchase"])
        #expect(list.allSatisfy { $0["at"]?.integer == TestStore.start.milliseconds })
        #expect(!"\(list.map(\.compactText))".contains("ann"))
    }

    @Test func `pages follow each other, and any other cursor is refused`() async throws {
        let world = try await World()
        for number in 0..<5 {
            let body = #"{"attributes":{"plan":{"value":"\#(number)"}}}"#
            #expect(try await world.send(.patch, Self.customer + "/attributes", body).0 == .ok)
        }
        var ids: [String?] = []
        var next: String? = ""
        while let cursor = next {
            let (_, page) = try await world.send(.get, "/v1/audit?limit=2" + cursor)
            ids += (page["items"]?.array ?? []).map { $0["id"]?.string }
            next = page["nextCursor"]?.string.map { "&after=\($0)" }
        }
        #expect(Set(ids).count == 5 && ids.count == 5)
        for cursor in ["x", "0", "1-2-3"] {
            let (status, answer) = try await world.send(.get, "/v1/audit?after=\(cursor)")
            #expect(status == .badRequest && answer["error"]?["code"]?.string == "invalidCursor")
        }
        let now = TestStore.start.milliseconds
        for (query, count) in [("from=\(now)", 5), ("to=\(now)", 0), ("from=\(now + 1)", 0), ("to=\(Int64.max)", 5)] {
            #expect(try await Self.entries(world, "?\(query)").count == count, "\(query)")
        }
        #expect(try await world.send(.get, "/v1/audit", key: .client).0 == .forbidden)
    }

    @Test func `a command of the operator has an entry without a key`() async throws {
        let world = try await World()
        let operation = MakeGrant.operation
        let words = ["customer": "anna", "entitlement": "gold", "forever": "true", "why": "a gift", "new": "true"]
        let values = try FieldValues(operation.fields, at: TestStore.start) { words[$0.option].map { [$0] } ?? [] }
        let reply = try await world.server.perform(operation, values, of: ["com.example"]) { _ in }
        #expect(reply?.code == 201)
        let entry = try #require(try await Self.entries(world).first)
        #expect(entry["by"]?.string == "quittance" && entry["operation"]?.string == "makeGrant")
        #expect(entry["keyName"] == nil && entry["role"] == nil && entry["customerId"]?.string == "anna")
    }

    @Test func `entries older than the retention are erased, and newer ones stay`() async throws {
        let world = try await World()
        let body = #"{"attributes":{"plan":{"value":"gold"}}}"#
        #expect(try await world.send(.patch, Self.customer + "/attributes", body).0 == .ok)
        for (days, count) in [(729, 1), (731, 0)] as [(Int64, Int)] {
            var housekeeping = Housekeeping(
                ledger: world.ledger, now: { TestStore.start.advanced(by: .seconds(days * 86_400)) },
                clock: VirtualClock(cancelsSleepingTasks: true), logger: world.server.logger)
            housekeeping.auditRetention = .seconds(730 * 86_400)
            try await housekeeping.run()
            #expect(try await Self.entries(world).count == count)
            #expect(try await world.ledger.events(of: "com.example", limit: 9).events.count == 1)
        }
    }
}

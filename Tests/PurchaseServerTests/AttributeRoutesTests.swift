// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import PurchaseLedger
import PurchaseServer
import TestWorld
import Testing

/// Tests the routes for the attributes of customers, and the search by `$email`.
@Suite struct AttributeRoutesTests {
    private typealias World = LedgerRoutesTests.World
    private static let path = "/v1/customers/anna/attributes"
    private static let now = LedgerRoutesTests.now.milliseconds

    @Test func `attributes are set, answered and removed`() async throws {
        let world = try await World()
        let none = try await world.send(.get, Self.path)
        #expect(none.0 == .ok && none.1.compactText == #"{"id":"anna","attributes":{}}"#)
        let set = try await world.send(
            .patch, Self.path,
            #"{"attributes":{"$email":{"value":"anna@example.com"},"plan":{"value":"a","updatedAt":5}}}"#)
        let expected = """
            {"id":"anna","attributes":{"$email":{"value":"anna@example.com","updatedAt":\(Self.now)},\
            "plan":{"value":"a","updatedAt":5}}}
            """
        #expect(set.0 == .ok && set.1.compactText == expected)
        #expect(try await world.send(.get, Self.path).1 == set.1)
        let removed = try await world.send(
            .patch, Self.path, #"{"attributes":{"$email":{"value":null},"plan":{"value":"","updatedAt":4}}}"#)
        #expect(removed.1["attributes"]?.members?.map(\.name) == ["plan"])
    }

    @Test(arguments: [
        #"{"attributes":{"a":"x"}}"#, #"{"attributes":{"a":{}}}"#,
        #"{"attributes":{"a":{"value":1}}}"#, #"{"attributes":{"a":{"value":"x","updatedAt":"1"}}}"#,
        #"{"attributes":{"a":{"value":"x","updatedAt":-1}}}"#, #"{"attributes":{"a":{"value":"x","updated":1}}}"#,
        #"{"attributes":{"a":{"value":"x","value":"y"}}}"#, #"{"attributes":{"a":{"value":"x"},"a":{"value":"y"}}}"#,
        #"{"attributes":{"a b":{"value":"x"}}}"#,
        #"{"attributes":{"a":{"value":"\#(String(repeating: "x", count: 501))"}}}"#,
    ])
    func `a body in a different form is refused, and changes nothing`(body: String) async throws {
        let world = try await World()
        let (status, answer) = try await world.send(.patch, Self.path, body)
        #expect(status == .badRequest && answer["error"]?["code"]?.string == "invalidRequest", "\(answer)")
        #expect(try await world.send(.get, "/v1/customers").1["items"]?.array == [])
    }

    @Test func `the fifty-first attribute of an app's own is refused with a code of its own`() async throws {
        let world = try await World()
        func body(_ names: Range<Int>) -> String {
            let members = names.map { #""a\#($0)":{"value":"x"}"# }
            return #"{"attributes":{\#(members.joined(separator: ","))}}"#
        }
        #expect(try await world.send(.patch, Self.path, body(0..<50)).0 == .ok)
        let (status, answer) = try await world.send(.patch, Self.path, body(50..<51))
        #expect(status == .conflict && answer["error"]?["code"]?.string == "tooManyAttributes", "\(answer)")
    }

    @Test func `customers are found by their address, with their entitlements`() async throws {
        let world = try await World()
        try await world.submit()
        _ = try await world.send(.patch, Self.path, #"{"attributes":{"$email":{"value":"a+b@example.com"}}}"#)
        for email in ["a+b@example.com", "a%2Bb%40example.com", "A%2BB@example.COM"] {
            let (status, found) = try await world.send(.get, "/v1/customers?email=\(email)")
            #expect(status == .ok && found["items"]?.array?.count == 1, "\(found)")
            let item = found["items"]?.array?.first
            #expect(item?["ids"]?.array?.compactMap(\.string) == ["anna"])
            #expect(item?["entitlements"]?.array?.count == 1)
            #expect(found["nextCursor"] == nil && found["eventsCursor"] == nil)
        }
        let none = try await world.send(.get, "/v1/customers?email=c%2Bb@example.com")
        #expect(none.0 == .ok && none.1["items"]?.array == [])
        for (query, code) in [
            ("email=", "invalidRequest"), ("email=a@example.com&after=1.com.example", "invalidCursor"),
            ("email=a@example.com&after=eMQ.com.example.two", "invalidCursor"),
            ("email=a@example.com&after=e*.com.example", "invalidCursor"), ("after=eMQ.com.example", "invalidCursor"),
        ] {
            let refused = try await world.send(.get, "/v1/customers?\(query)")
            #expect(refused.0 == .badRequest && refused.1["error"]?["code"]?.string == code, "\(query)")
        }
    }

    @Test func `customers with the same address beyond the hundredth are on further pages`() async throws {
        let world = try await World()
        let ids = (0..<205).map { "customer-\($0)" }
        for id in ids {
            _ = try await world.ledger.setAttributes(
                [CustomerAttributes.Change("$email", "all@example.com")], of: id, in: "com.example",
                at: LedgerRoutesTests.now)
        }
        var (found, after, pages) = ([String](), "", 0)
        repeat {
            let (status, page) = try await world.send(.get, "/v1/customers?email=all@example.com\(after)")
            let items = try #require(page["items"]?.array)
            #expect(status == .ok && items.count <= 100 && page["eventsCursor"] == nil)
            found += items.flatMap { $0["ids"]?.array?.compactMap(\.string) ?? [] }
            after = page["nextCursor"]?.string.map { "&after=\($0)" } ?? ""
            pages += 1
        } while !after.isEmpty
        #expect(found.sorted() == ids.sorted() && pages == 3)
    }
}

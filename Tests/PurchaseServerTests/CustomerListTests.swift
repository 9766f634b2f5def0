// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import PurchaseLedger
import PurchaseLedgerTesting
import PurchaseServer
import TestWorld
import Testing

/// Tests the list of an app's customers, from which a backend begins to follow the events, and the customers in answers
/// about purchases.
@Suite struct CustomerListTests {
    private typealias World = LedgerRoutesTests.World
    private static let scope = LedgerRoutesTests.scope

    /// Submits a purchase of a customer.
    private static func submit(
        _ world: World, _ id: String, by customer: String, _ environment: AppStoreModel.Environment = .production
    ) async throws {
        let token = try world.transaction {
            $0.transactionId = id
            $0.originalTransactionId = id
            $0.environment = Open(environment)
        }
        let (status, answer) = try await world.submit(token, for: customer)
        #expect(status == .ok, "\(answer)")
    }

    /// The answers of all pages.
    private static func pages(_ world: World, _ query: String = "") async throws -> [JSONValue] {
        var pages: [JSONValue] = []
        var cursor: String?
        repeat {
            let after = cursor.map { "after=\($0)" } ?? ""
            let parameters = [after, query].filter { !$0.isEmpty }.joined(separator: "&")
            let (status, page) = try await world.send(.get, "/v1/customers?\(parameters)")
            try #require(status == .ok, "\(page)")
            pages.append(page)
            cursor = page["nextCursor"]?.string
        } while cursor != nil
        return pages
    }

    private static func ids(_ page: JSONValue) -> [[String]] {
        (page["items"]?.array ?? []).map { ($0["ids"]?.array ?? []).compactMap(\.string) }
    }

    @Test func `the list has each customer once, with all ids and the entitlements of the customer's answer`()
        async throws
    {
        let world = try await World()
        try await Self.submit(world, "1", by: "anna")
        try await Self.submit(world, "2", by: "bert", .sandbox)
        _ = try await world.send(.post, "/v1/customers/anna/aliases", #"{"alias":"ann"}"#)
        _ = try await world.send(.put, "/v1/customers/cora/consent", #"{"customerConsented":true}"#)
        for query in ["", "environment=any", "environment=sandbox"] {
            let pages = try await Self.pages(world, query)
            #expect(pages.count == 1)
            #expect(Self.ids(pages[0]) == [["anna", "ann"], ["bert"], ["cora"]])
            for item in pages[0]["items"]?.array ?? [] {
                let id = item["ids"]?.array?.first?.string ?? ""
                let customer = try await world.send(.get, "/v1/customers/\(id)?\(query)").1
                #expect(item["entitlements"] == customer["entitlements"], "\(id) with \(query)")
                #expect(item["ids"] == customer["ids"])
            }
        }
        let granted = try await Self.pages(world)[0]["items"]?.array?.compactMap { $0["entitlements"]?.array?.count }
        #expect(granted == [1, 1, 0])
    }

    @Test func `more than five hundred customers come on several pages, and only the first has the cursor of events`()
        async throws
    {
        let world = try await World()
        for number in 0..<1003 {
            _ = try await world.ledger.recordConsent(true, of: "c\(number)", in: Self.scope, at: LedgerRoutesTests.now)
        }
        let other = LedgerScope(bundleId: "com.example.two", environment: .production)
        _ = try await world.ledger.recordConsent(true, of: "stranger", in: other, at: LedgerRoutesTests.now)
        let pages = try await Self.pages(world)
        #expect(pages.flatMap(Self.ids) == (0..<1003).map { ["c\($0)"] })
        #expect(pages.allSatisfy { Self.ids($0).count <= 500 })
        #expect(pages.map { $0["eventsCursor"] != nil } == [true] + pages.dropFirst().map { _ in false })
    }

    @Test func `a page with very many transactions is cut short, and the next page goes on`() async throws {
        let world = try await World()
        // Each answer of the storage has a fixed number of statements for each customer.
        let counting = CountingStorage(inner: world.storage, statementsOfCustomer: 2000)
        var crowded = world
        crowded.server = try world.server(keeping: Ledger(storage: counting))
        for number in 0..<9 {
            _ = try await world.ledger.recordConsent(true, of: "c\(number)", in: Self.scope, at: LedgerRoutesTests.now)
        }
        let pages = try await Self.pages(crowded)
        #expect(pages.flatMap(Self.ids) == (0..<9).map { ["c\($0)"] })
        #expect(pages.allSatisfy { (1...2).contains(Self.ids($0).count) }, "\(pages.map(Self.ids))")
    }

    /// A storage whose customers have many statements.
    private struct CountingStorage: ForwardingStorage {
        let inner: any LedgerStorage
        let statementsOfCustomer: Int

        func statementCount(_ query: LedgerQuery) async throws -> Int {
            Set(query.keys.map { if case .customerID(let id) = $0 { id.id } else { "" } }.filter { !$0.isEmpty }).count
                * statementsOfCustomer
        }
    }

    // MARK: - Searches

    @Test func `customers are found by the beginning of any of their ids, page by page, and by nothing else`()
        async throws
    {
        let world = try await World()
        let scope = LedgerScope(bundleId: "com.example", environment: .production)
        let uuid = "0D6E5C0A-6A52-4A0B-9D4B-0F1F4E3A9B11"
        for id in ["anna", "bert", "Anton", "an", uuid] {
            _ = try await world.ledger.recordConsent(true, of: id, in: scope, at: LedgerRoutesTests.now)
        }
        for alias in ["anders", "ann"] {
            _ = try await world.ledger.addAlias(alias, to: "bert", in: scope, at: LedgerRoutesTests.now)
        }
        let other = LedgerScope(bundleId: "com.example.two", environment: .production)
        _ = try await world.ledger.recordConsent(true, of: "anstranger", in: other, at: LedgerRoutesTests.now)
        let bert = ["bert", "anders", "ann"]
        for (prefix, expected) in [
            ("an", [["an"], bert, ["anna"]]), ("ann", [bert, ["anna"]]), ("anna", [["anna"]]), ("annab", []),
            ("A", [["Anton"]]), ("B", [bert]), ("0D6E5", [[uuid.lowercased()]]), ("%25", []), ("ans", []),
        ] {
            let page = try await world.send(.get, "/v1/customers?prefix=\(prefix)").1
            #expect(Self.ids(page) == expected && page["nextCursor"] == nil, "\(prefix): \(page)")
            let pages = try await Self.pages(world, "prefix=\(prefix)&limit=1")
            #expect(Set(pages.flatMap(Self.ids)) == Set(expected), "\(prefix)")
            #expect(pages.allSatisfy { Self.ids($0).count <= 1 && $0["eventsCursor"] == nil })
        }
    }

    @Test func `the newest customers come first, page by page`() async throws {
        let world = try await World()
        for number in 0..<130 {
            let app = number.isMultiple(of: 3) ? "com.example.two" : "com.example"
            let scope = LedgerScope(bundleId: app, environment: .production)
            _ = try await world.ledger.recordConsent(true, of: "c\(number)", in: scope, at: LedgerRoutesTests.now)
        }
        let expected = (0..<130).reversed().filter { !$0.isMultiple(of: 3) }.map { ["c\($0)"] }
        let page = try await world.send(.get, "/v1/customers?newest=true&limit=20").1
        #expect(Self.ids(page) == Array(expected.prefix(20)))
        #expect(try await Self.pages(world, "newest=true&limit=7").flatMap(Self.ids) == expected)
        #expect(try await Self.pages(world, "newest=false").flatMap(Self.ids) == expected.reversed())
    }

    @Test(arguments: [
        "prefix=a&newest=true", "email=a&prefix=a", "email=a&newest=true", "prefix=", "limit=0", "limit=501",
    ])
    func `two searches at once, or one without a text, are refused`(query: String) async throws {
        let (status, answer) = try await World().send(.get, "/v1/customers?\(query)")
        #expect(status == .badRequest && answer["error"]?["code"]?.string == "invalidRequest", "\(answer)")
    }

    @Test func `a cursor of one search is refused by another`() async throws {
        let world = try await World()
        let scope = LedgerScope(bundleId: "com.example", environment: .production)
        for id in ["a1", "a2"] {
            _ = try await world.ledger.recordConsent(true, of: id, in: scope, at: LedgerRoutesTests.now)
        }
        let searches = ["prefix=a&limit=1", "newest=true&limit=1", "limit=1"]
        for search in searches {
            let page = try await world.send(.get, "/v1/customers?\(search)").1
            let cursor = try #require(page["nextCursor"]?.string)
            for other in searches {
                let (status, _) = try await world.send(.get, "/v1/customers?\(other)&after=\(cursor)")
                #expect((status == .ok) == (other == search), "\(search) \(other)")
            }
        }
    }

    @Test func `the newest events come first, and a filter looks among them`() async throws {
        let world = try await World()
        for number in 1...30 {
            try await Self.submit(world, "\(number)", by: number.isMultiple(of: 2) ? "anna" : "bert")
        }
        let all = try await world.send(.get, "/v1/events?limit=500").1["items"]?.array ?? []
        for (query, expected) in [
            ("limit=20", Array(all.reversed().prefix(20))), ("limit=500", all.reversed()),
            ("customer=anna&limit=5", Array(all.reversed().filter { $0["customer"]?.string == "anna" }.prefix(5))),
            ("kind=purchase.made", all.reversed().filter { $0["kind"]?.string == "purchase.made" }),
        ] {
            let (status, page) = try await world.send(.get, "/v1/events?newest=true&\(query)")
            #expect(status == .ok && page["items"]?.array == expected, "\(query)")
            #expect(page["nextCursor"]?.string == all.last?["id"]?.string)
        }
        for query in ["after=0", "wait=1"] {
            #expect(try await world.send(.get, "/v1/events?newest=true&\(query)").0 == .badRequest, "\(query)")
        }
    }

    @Test func `the events after the cursor of the first page have each change since`() async throws {
        let world = try await World()
        try await Self.submit(world, "1", by: "anna")
        let first = try await Self.pages(world)[0]
        let cursor = try #require(first["eventsCursor"]?.string)
        let none = try await world.send(.get, "/v1/events?after=\(cursor)").1
        #expect(none["items"]?.array == [])
        try await Self.submit(world, "2", by: "bert")
        let items = try await world.send(.get, "/v1/events?after=\(cursor)").1["items"]?.array ?? []
        #expect(!items.isEmpty && items.allSatisfy { $0["customer"]?.string == "bert" || $0["customer"] == nil })
    }

    @Test func `a ledger without events has a cursor from which its first event is read`() async throws {
        let world = try await World()
        let page = try await Self.pages(world)[0]
        #expect(Self.ids(page) == [])
        let cursor = try #require(page["eventsCursor"]?.string)
        try await Self.submit(world, "1", by: "anna")
        let items = try await world.send(.get, "/v1/events?after=\(cursor)").1["items"]?.array ?? []
        #expect(!items.isEmpty)
    }

    @Test(arguments: [
        "", "x", "1", "1.", "1.com.example.two", "-1.com.example", "01.com.example", "+1.com.example",
        "99999999999999999999.com.example", "1.com.example.", "0",
    ])
    func `a text that is no cursor of the app's customers is refused`(cursor: String) async throws {
        let (status, answer) = try await World().send(.get, "/v1/customers?after=\(cursor)")
        #expect(status == .badRequest && answer["error"]?["code"]?.string == "invalidCursor", "\(answer)")
    }

    @Test func `customers that are merged or erased between two pages are not listed again`() async throws {
        let world = try await World()
        for id in ["anna", "bert", "cora"] {
            _ = try await world.ledger.recordConsent(true, of: id, in: Self.scope, at: LedgerRoutesTests.now)
        }
        let page = try await world.ledger.customers(of: "com.example", limit: 3)
        _ = try await world.ledger.addAlias("bert", to: "anna", in: Self.scope, at: LedgerRoutesTests.now)
        _ = try await world.ledger.delete("cora", in: Self.scope, at: LedgerRoutesTests.now)
        let found = try await world.ledger.listed(page.items, in: [.production], at: LedgerRoutesTests.now)
        #expect(found.values.map(\.holdings.ids) == [["anna", "bert"]])
    }

    // MARK: - The customers of a purchase

    @Test func `answers about a transaction and a subscription name the first id of each owner`() async throws {
        let world = try await World(policy: .share)
        try await Self.submit(world, "1", by: "anna")
        _ = try await world.send(.post, "/v1/customers/anna/aliases", #"{"alias":"ann"}"#)
        for path in ["transactions", "subscriptions"] {
            let answer = try await world.send(.get, "/v1/\(path)/1").1
            #expect(answer["customers"]?.array?.compactMap(\.string) == ["anna"], "\(path)")
        }
        try await Self.submit(world, "1", by: "bert")
        for path in ["transactions", "subscriptions"] {
            let answer = try await world.send(.get, "/v1/\(path)/1").1
            #expect(answer["customers"]?.array?.compactMap(\.string) == ["anna", "bert"], "\(path)")
        }
        _ = try await world.send(.delete, "/v1/customers/anna")
        let left = try await world.send(.get, "/v1/transactions/1").1
        #expect(left["customers"]?.array?.compactMap(\.string) == ["bert"])
        let purchase = try await world.send(.get, "/v1/customers/bert").1["purchases"]?.array?.first
        #expect(purchase != nil && purchase?["customers"] == nil)
    }
}

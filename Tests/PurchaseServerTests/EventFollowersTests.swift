// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import HTTPTypes
import HummingbirdTesting
import LedgerSQLite
import NIOCore
import PurchaseLedger
import PurchaseLedgerTesting
import TestWorld
import Testing

@testable import PurchaseServer

/// Tests the requests that wait for events, and the filters of events.
@Suite(.timeLimit(.minutes(60))) struct EventFollowersTests {
    private typealias World = LedgerRoutesTests.World

    /// The path of a page of events.
    private static func path(_ query: String, after cursor: String? = nil) -> String {
        "/v1/events?\(query)" + (cursor.map { "&after=\($0)" } ?? "")
    }

    /// The kinds of a page's events, and its cursor.
    private static func page(_ json: JSONValue) throws -> (kinds: [String], next: String) {
        let items = try #require(json["items"]?.array)
        return (items.compactMap { $0["kind"]?.string }, try #require(json["nextCursor"]?.string))
    }

    @Test func `a request that waits gets the event of a commit of this server, however long it would have waited`()
        async throws
    {
        // No search finds the event: the clock of the searches stands still.
        let world = try await World(clock: StandingClock())
        let start = try Self.page(try await world.send(.get, Self.path("limit=1")).1)
        #expect(start.kinds == [])
        async let waiting = world.send(.get, Self.path("wait=50", after: start.next))
        let followers = try #require(world.server.ledger?.followers)
        while followers.count == 0 { try await Task.sleep(for: .milliseconds(5)) }
        try await world.submit()
        let (status, json) = try await waiting
        let page = try Self.page(json)
        #expect(status == .ok && !page.kinds.isEmpty)
        #expect(page.next != start.next && followers.count == 0)
    }

    /// The names of deleted customers are kept for 30 days by the machine's clock, not by that of a simulator.
    @Test(arguments: [-400, 0, 400]) func `a deletion has its ids for who waits and for who asks`(
        days: Double
    ) async throws {
        var world = try await World(clock: StandingClock())
        let wall = LedgerRoutesTests.now.advanced(by: .seconds(days * 86_400))
        world.server.wall = { wall }
        try await world.submit()
        let start = try Self.page(try await world.send(.get, Self.path("limit=500")).1)
        let waiting = Task { [world] in
            try await world.send(.get, Self.path("wait=50&kind=customer.deleted", after: start.next)).1
        }
        let followers = try #require(world.server.ledger?.followers)
        while followers.count == 0 { try await Task.sleep(for: .milliseconds(5)) }
        #expect(try await world.send(.delete, "/v1/customers/anna").0 == .ok)
        let told = try await waiting.value
        #expect(told["items"]?.array?.map { $0["deletedId"]?.string } == ["anna"], "\(told.compactText)")
        let asked = try await world.send(.get, Self.path("kind=customer.deleted", after: start.next)).1
        #expect(asked["items"] == told["items"])
    }

    @Test func `the wait of a revoked key ends as a request with the key does, although its app has no event`()
        async throws
    {
        var world = try await World()
        // The lifetime of a key in memory is measured by the time of the machine.
        world.server.wall = { Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) }
        let start = try Self.page(try await world.send(.get, Self.path("limit=1")).1)
        let waiting = Task { [world] in try await world.send(.get, Self.path("wait=60", after: start.next)) }
        let other = Task { [world] in try await world.send(.get, Self.path("wait=60", after: start.next)) }
        let followers = try #require(world.server.ledger?.followers)
        while followers.count < 2 { try await Task.sleep(for: .milliseconds(5)) }
        let id = try #require(world.keys[.server].flatMap { APIKey.parts(of: $0)?.id })
        var key = try #require(try await world.ledger.apiKey(id))
        key.revokedAt = LedgerRoutesTests.now
        try await world.ledger.put(key)
        for task in [waiting, other] {
            let (status, json) = try await task.value
            #expect(status == .unauthorized && json["items"] == nil)
        }
        while followers.count > 0 { try await Task.sleep(for: .milliseconds(5)) }
    }

    @Test func `an event that a command or another server stored ends the wait too`() async throws {
        let storage = MemoryLedgerStorage()
        let world = try await World(storage: storage)
        let start = try Self.page(try await world.send(.get, Self.path("limit=1")).1)
        async let waiting = world.send(.get, Self.path("wait=50", after: start.next))
        let followers = try #require(world.server.ledger?.followers)
        while followers.count == 0 { try await Task.sleep(for: .milliseconds(5)) }
        let document = try await world.store.verifier().evidence(
            transaction: try world.transaction(), at: LedgerRoutesTests.now)
        _ = try await Ledger(storage: storage).record([document], claimedBy: "anna", at: LedgerRoutesTests.now)
        #expect(try Self.page(try await waiting.1).kinds.isEmpty == false)
    }

    @Test func `a wait without an event ends with an empty page and the cursor of the request`() async throws {
        let world = try await World(clock: VirtualClock())
        let start = try Self.page(try await world.send(.get, Self.path("limit=1")).1)
        let (status, json) = try await world.send(.get, Self.path("wait=60", after: start.next))
        let page = try Self.page(json)
        #expect(status == .ok && page.kinds == [] && page.next == start.next)
    }

    @Test func `a request beyond the bound is answered at once, with Retry-After`() async throws {
        var bounds = ServerBounds()
        bounds.followers = 2
        let world = try await World(clock: StandingClock(), bounds: bounds)
        let start = try Self.page(try await world.send(.get, Self.path("limit=1")).1)
        let followers = try #require(world.server.ledger?.followers)
        try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<2 {
                group.addTask {
                    let answer = try await world.send(.get, Self.path("wait=50", after: start.next))
                    return try Self.page(answer.1).kinds.count
                }
            }
            while followers.count < 2 { try await Task.sleep(for: .milliseconds(5)) }
            let third = try await world.respond(.get, Self.path("wait=50", after: start.next), key: .server)
            #expect(third.status == .ok && third.headers[.retryAfter] == "5")
            #expect(try Self.page(try JSONValue(parsing: third.body.readableBytesView)).next == start.next)
            try await world.submit()
            for try await count in group { #expect(count > 0) }
        }
    }

    /// The followers of a ledger in memory, without a server.
    private struct Scene {
        static let app = "com.example"
        let storage = CountingStorage()
        let followers: EventFollowers
        let ledger: Ledger

        init() {
            ledger = Ledger(storage: storage)
            followers = EventFollowers(ledger)
        }

        static func customer(_ number: Int) -> String { "customer \(number)" }

        static func filter(_ number: Int) -> EventFilter {
            EventFilter(customers: [CustomerID(customer(number), of: app)])
        }

        func page(
            after cursor: EventCursor, _ filter: EventFilter = EventFilter(), upTo limit: Int = 100,
            clock: any Clock<Duration> = StandingClock()
        ) async throws -> EventPage {
            let page = try await followers.page(
                after: EventPosition(bundleId: Self.app, cursor: cursor), matching: filter, upTo: limit,
                within: .seconds(50), room: .max, clock: clock, now: { TestStore.start })
            return try #require(page)
        }

        /// Commits an event of a customer.
        func grant(_ id: String, to number: Int) async throws {
            _ = try await ledger.make(
                GrantRequest(id: id, entitlement: "pro", why: "a test"), forCustomer: Self.customer(number),
                of: Self.app, at: TestStore.start)
        }

        func commit(_ id: String, to number: Int) async throws {
            try await grant(id, to: number)
            followers.noteEvents(of: Self.app)
        }

        func wait(until condition: () -> Bool) async throws {
            while !condition() { try await Task.sleep(for: .milliseconds(5)) }
        }
    }

    @Test func `followers at one cursor share each search`() async throws {
        let scene = Scene()
        let start = try await scene.ledger.endOfEvents(of: Scene.app)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<50 {
                group.addTask {
                    let page = try await scene.page(after: start)
                    #expect(page.events.isEmpty)
                }
            }
            try await scene.wait { scene.followers.count == 50 && scene.storage.reads > 0 }
            group.cancelAll()
            try await group.waitForAll()
        }
        #expect(scene.followers.count == 0 && scene.storage.reads == 1)
    }

    @Test func `a commit beside 200 followers with filters costs a search, and wakes only whom it concerns`()
        async throws
    {
        let scene = Scene()
        // The first event gives the app its first epoch, and so the cursors their form.
        try await scene.grant("first", to: 0)
        let start = try await scene.ledger.endOfEvents(of: Scene.app)
        let reads = scene.storage.reads
        let (answers, answer) = AsyncStream.makeStream(of: (Int, EventPage).self)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<200 {
                group.addTask { answer.yield((number, try await scene.page(after: start, Scene.filter(number)))) }
            }
            try await scene.wait { scene.followers.count == 200 && scene.storage.reads > reads }
            var iterator = answers.makeAsyncIterator()
            for (commits, number) in [7, 120, 199].enumerated() {
                let loads = scene.storage.loads
                try await scene.commit("present \(commits)", to: number)
                let (woken, page) = try #require(await iterator.next())
                #expect(woken == number && page.events.map(\.kind.rawValue) == ["grant.made"])
                #expect(scene.storage.reads == reads + 2 + commits)
                // The ids of the event's customer are read once for all filters.
                #expect(scene.storage.loads == loads + 1)
                try await scene.wait { scene.followers.count == 199 - commits }
            }
            // The others have gone on: an answer continues after the events that its filter left out.
            try await scene.commit("another present", to: 50)
            let (woken, page) = try #require(await iterator.next())
            #expect(woken == 50 && page.events.count == 1)
            #expect(page.next == (try await scene.ledger.endOfEvents(of: Scene.app)))
            group.cancelAll()
            try await group.waitForAll()
        }
        #expect(scene.followers.count == 0)
    }

    /// Commits happen before, during and after the searches, and some as those of another server, which wake nobody.
    @Test(arguments: [1, 100])
    func `no follower misses an event or gets it twice, whenever it is committed`(limit: Int) async throws {
        let scene = Scene()
        let (customers, presents) = (4, CustomerGrant.maxActive)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<customers {
                group.addTask {
                    for present in 0..<presents {
                        try await scene.grant("present \(present) to \(number)", to: number)
                        if present % 5 != 4 { scene.followers.noteEvents(of: Scene.app) }
                        await Task.yield()
                    }
                }
            }
            for number in 0..<customers * 3 {
                group.addTask {
                    let isFiltered = number < customers * 2
                    let filter = isFiltered ? Scene.filter(number % customers) : EventFilter()
                    let expected = isFiltered ? presents : presents * customers
                    var (found, cursor): ([EventCursor?], EventCursor) = ([], EventCursor(0))
                    while found.count < expected {
                        let page = try await scene.page(after: cursor, filter, upTo: limit, clock: ContinuousClock())
                        found += page.events.map(\.cursor)
                        cursor = page.next
                    }
                    #expect(found.count == expected && Set(found).count == expected)
                }
            }
            try await group.waitForAll()
        }
    }

    @Test func `a follower at a wrong cursor gets the error, and others wait on`() async throws {
        let scene = Scene()
        try await scene.grant("first", to: 0)
        let start = try await scene.ledger.endOfEvents(of: Scene.app)
        let right = Task { try await scene.page(after: start) }
        await #expect(throws: EventCursorError.invalid) { try await scene.page(after: .init(rawValue: "1.other")) }
        try await scene.wait { scene.followers.count == 1 }
        try await scene.commit("second", to: 0)
        #expect(try await right.value.events.count == 1)
    }

    /// Queries, and the kinds of a trial's events that they let through, the cursor of the last one included.
    @Test(arguments: [
        ("kind=subscription.started", ["subscription.started"]),
        ("kind=purchase.linked,subscription.started&limit=1", ["purchase.linked", "subscription.started"]),
        ("kind=purchase.refunded", []),
        ("environment=sandbox", []),
        ("environment=production&kind=purchase.linked", ["purchase.linked"]),
        ("customer=anna&kind=subscription.started", ["subscription.started"]),
        ("customer=berta", []),
    ])
    func `a filter leaves out other events, and its cursor passes them`(query: String, kinds: [String]) async throws {
        let world = try await World()
        try await world.submit()
        let all = try Self.page(try await world.send(.get, Self.path("limit=500")).1)
        var found: [String] = []
        var cursor = "0"
        while true {
            let page = try Self.page(try await world.send(.get, Self.path(query, after: cursor)).1)
            found += page.kinds
            guard page.next != cursor else { break }
            cursor = page.next
        }
        #expect(found == kinds)
        #expect(cursor == all.next)
    }

    /// Customers that were merged, deleted and renamed, and an id that nobody ever had.
    @Test(arguments: ["anna", "bert", "ann", "cora", "dora", "nobody"])
    func `the events of a filter are those of the whole feed that it lets through`(id: String) async throws {
        let world = try await World()
        for customer in ["anna", "bert", "cora", "dora"] {
            _ = try await world.ledger.make(
                GrantRequest(id: customer, entitlement: "pro", why: "a test"), forCustomer: customer, of: "com.example",
                at: LedgerRoutesTests.now)
        }
        for alias in ["bert", "ann"] {
            _ = try await world.send(.post, "/v1/customers/anna/aliases", #"{"alias":"\#(alias)"}"#)
        }
        _ = try await world.send(.post, "/v1/customers/anna/unlink", #"{"alias":"ann","reason":"x"}"#)
        #expect(try await world.send(.delete, "/v1/customers/cora").0 == .ok)
        let ids = ["anna", "bert"].contains(id) ? ["anna", "bert"] : [id]
        let (_, all) = try await world.send(.get, Self.path("limit=500"))
        for kinds in [nil, ["grant.made"], ["customer.merged", "customer.deleted", "customer.aliasRemoved"]] {
            let expected = (all["items"]?.array ?? []).filter { item in
                let names = ["customer", "mergedCustomer", "removedId"].map { item[$0]?.string }
                let deleted = item["deletedIds"]?.array?.map(\.string) ?? []
                return (names + deleted).contains { $0.map(ids.contains) ?? false }
                    && kinds?.contains(item["kind"]?.string ?? "") ?? true
            }
            let query = "customer=\(id)" + (kinds.map { "&kind=" + $0.joined(separator: ",") } ?? "")
            let (_, page) = try await world.send(.get, Self.path(query))
            #expect(page["items"]?.array == expected, "\(query)")
            #expect(page["nextCursor"] == all["nextCursor"], "\(query)")
            let (_, newest) = try await world.send(.get, Self.path(query + "&newest=true"))
            #expect(newest["items"]?.array == expected.reversed(), "\(query)")
        }
    }

    /// A storage whose reads of all events fail.
    private struct SearchedStorage: ForwardingStorage {
        let inner: any LedgerStorage

        func events(of bundleId: String, after cursor: EventCursor?, limit: Int) async throws -> EventPage {
            throw LedgerStorageError(.unavailable, "All events were read")
        }
    }

    @Test func `a filter that finds nothing reads no events, and its cursor passes them`() async throws {
        let storage = try SQLiteLedgerStorage.inMemory()
        let world = try await World(storage: storage)
        try await world.submit()
        let all = try Self.page(try await world.send(.get, Self.path("limit=500")).1)
        let other = try await World(storage: SearchedStorage(inner: storage))
        let filters = ["customer=nobody", "kind=purchase.refunded", "environment=sandbox"]
        for query in filters + filters.map({ $0 + "&newest=true" }) {
            let page = try Self.page(try await other.send(.get, Self.path(query)).1)
            #expect(page.kinds == [] && page.next == all.next, "\(query)")
        }
    }

    @Test func `a restore reaches followers with any filter but that of another environment`() async throws {
        let world = try await World()
        try await world.submit()
        let start = try Self.page(try await world.send(.get, Self.path("limit=500")).1)
        try await world.ledger.storage.beginEpoch(at: LedgerRoutesTests.now)
        for (query, isShown) in [
            ("limit=9", true), ("kind=purchase.linked", true), ("customer=berta", true),
            ("environment=production&kind=purchase.linked&customer=anna", true), ("environment=sandbox", false),
        ] {
            let page = try Self.page(try await world.send(.get, Self.path(query, after: start.next)).1)
            #expect(page.kinds == (isShown ? ["ledger.restored"] : []), "\(query)")
            #expect(page.next.drop { $0 != "." } != start.next.drop { $0 != "." }, "\(query)")
        }
    }

    /// The Kelvin sign and `K` are equal as Swift's strings.
    @Test func `a filter by customer compares ids byte by byte`() async throws {
        let world = try await World()
        try await world.submit(for: "Kate")
        for (id, isEmpty) in [("Kate", false), ("%E2%84%AAate", true)] {
            let page = try Self.page(try await world.send(.get, Self.path("customer=\(id)")).1)
            #expect(page.kinds.isEmpty == isEmpty, "\(id)")
        }
    }

    @Test func `an id that a customer gets during the wait finds the customer's events`() async throws {
        let world = try await World(clock: StandingClock())
        try await world.submit()
        let start = try Self.page(try await world.send(.get, Self.path("limit=500")).1)
        async let waiting = world.send(.get, Self.path("wait=50&customer=bob", after: start.next))
        let followers = try #require(world.server.ledger?.followers)
        while followers.count == 0 { try await Task.sleep(for: .milliseconds(5)) }
        _ = try await world.send(.post, "/v1/customers/anna/aliases", #"{"alias":"bob"}"#)
        #expect(try Self.page(try await waiting.1).kinds == ["customer.aliasAdded"])
    }
}

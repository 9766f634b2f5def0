// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import HTTPTypes
import HummingbirdTesting
import NIOCore
import PurchaseLedger
import Synchronization
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
        _ = try await world.send(
            .post, "/v1/customers/anna/purchases", #"{"document":"\#(try world.transaction())"}"#)
        let (status, json) = try await waiting
        let page = try Self.page(json)
        #expect(status == .ok && !page.kinds.isEmpty)
        #expect(page.next != start.next && followers.count == 0)
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
            _ = try await world.send(
                .post, "/v1/customers/anna/purchases", #"{"document":"\#(try world.transaction())"}"#)
            for try await count in group { #expect(count > 0) }
        }
    }

    @Test func `followers at one cursor share each search`() async throws {
        let followers = EventFollowers()
        let clock = StandingClock()
        let cursor = EventCursor(0)
        let searches = Searches()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<50 {
                group.addTask {
                    let page = try await followers.page(
                        of: "com.example", after: cursor, within: .seconds(50), limit: 50, clock: clock,
                        search: { searches.page(after: $0) }, { $0 })
                    #expect(page?.events.isEmpty == true)
                }
            }
            while followers.count < 50 || searches.count == 0 { try await Task.sleep(for: .milliseconds(5)) }
            group.cancelAll()
            try await group.waitForAll()
        }
        #expect(followers.count == 0 && searches.count == 1)
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
        _ = try await world.send(
            .post, "/v1/customers/anna/purchases", #"{"document":"\#(try world.transaction())"}"#)
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

    /// The Kelvin sign and `K` are equal as Swift's strings.
    @Test func `a filter by customer compares ids byte by byte`() async throws {
        let world = try await World()
        _ = try await world.send(
            .post, "/v1/customers/Kate/purchases", #"{"document":"\#(try world.transaction())"}"#)
        for (id, isEmpty) in [("Kate", false), ("%E2%84%AAate", true)] {
            let page = try Self.page(try await world.send(.get, Self.path("customer=\(id)")).1)
            #expect(page.kinds.isEmpty == isEmpty, "\(id)")
        }
    }

    @Test func `an id that a customer gets during the wait finds the customer's events`() async throws {
        let world = try await World(clock: StandingClock())
        let body = #"{"document":"\#(try world.transaction())"}"#
        _ = try await world.send(.post, "/v1/customers/anna/purchases", body)
        let start = try Self.page(try await world.send(.get, Self.path("limit=500")).1)
        async let waiting = world.send(.get, Self.path("wait=50&customer=bob", after: start.next))
        let followers = try #require(world.server.ledger?.followers)
        while followers.count == 0 { try await Task.sleep(for: .milliseconds(5)) }
        _ = try await world.send(.post, "/v1/customers/anna/aliases", #"{"alias":"bob"}"#)
        #expect(try Self.page(try await waiting.1).kinds == ["customer.aliasAdded"])
    }

    @Test(arguments: [
        "wait=61", "wait=-1", "wait=+1", "wait=x", "kind=purchase", "kind=", "environment=any", "customer=",
    ])
    func `a parameter out of its range is refused`(query: String) async throws {
        let world = try await World()
        #expect(try await world.send(.get, Self.path(query)).0 == .badRequest)
    }
}

/// Counts searches, which find nothing.
private final class Searches: Sendable {
    private let state = Mutex(0)

    var count: Int { state.withLock { $0 } }

    func page(after cursor: EventCursor) -> EventPage {
        state.withLock { $0 += 1 }
        return EventPage(events: [], customerIds: [:], next: cursor)
    }
}

/// A clock that stands still. A task that sleeps wakes only if it is cancelled.
private struct StandingClock: Clock {
    struct Instant: InstantProtocol {
        var offset: Duration
        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    var now: Instant { Instant(offset: .zero) }
    var minimumResolution: Duration { .zero }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        try await Task.sleep(for: .seconds(86_400))
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Logging
import PurchaseLedger
import TestWorld
import Testing

@testable import PurchaseServer

/// Tests that the endpoints of an app share reads of the feed, and miss nothing.
@Suite struct WebhookFeedTests {
    private static let app = "com.example.notes"

    private let storage = CountingStorage()
    private let followers: EventFollowers
    private static let now = RandomWorld.start

    init() { followers = EventFollowers(Ledger(storage: storage)) }

    private func feed(gathering: Duration) -> WebhookFeed {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return WebhookFeed(
            followers, gathering: gathering, now: { Self.now }, clock: ContinuousClock(),
            ThrottledWarning("A webhook waits", clock: ContinuousClock(), logger))
    }

    private func makeEvents(_ numbers: Range<Int>) async throws {
        for number in numbers {
            let request = GrantRequest(id: "g\(number)", entitlement: "pro", why: "a test")
            _ = try await Ledger(storage: storage).make(
                request, forCustomer: "customer \(number)", of: Self.app, at: Self.now)
        }
        followers.noteEvents(of: Self.app)
    }

    private static func page(_ part: WebhookFeed.Part) -> WebhookPage? {
        guard case .page(let page) = part else { return nil }
        return page
    }

    @Test func `endpoints share a read, its page and the JSON of its events`() async throws {
        let feed = feed(gathering: .seconds(3600))
        try await makeEvents(0..<5)
        async let first = feed.part(of: Self.app, after: .init(0))
        async let second = feed.part(of: Self.app, after: .init(0))
        let pages = try await [first, second].map { try #require(Self.page($0)) }
        let event = try #require(pages[0].page.events.dropFirst(2).first)
        let cursor = try #require(event.cursor)
        let later = try #require(Self.page(await feed.part(of: Self.app, after: .init(0))))
        let middle = await feed.part(of: Self.app, after: cursor)
        #expect(storage.reads == (cursor.epoch.isEmpty ? 1 : 2))
        #expect(pages.allSatisfy { $0 === later } && later.page.events.count == 5)
        #expect(Self.page(middle)?.page.events.contains { $0.cursor == later.next } == true)
        let bodies = (0..<2).map { _ in later.body(of: event, cursor) }
        #expect(bodies[0] == bodies[1] && bodies[0]?.isEmpty == false)
    }

    @Test func `a reader who is far behind takes no page from readers at the end`() async throws {
        let feed = feed(gathering: .seconds(3600))
        try await makeEvents(0..<250)
        let all = try await Ledger(storage: storage).events(of: Self.app, after: nil, limit: 500).events
        let behind = try #require(all[149].cursor)
        let last = try #require(Self.page(await feed.part(of: Self.app, after: behind)))
        #expect(Self.page(await feed.part(of: Self.app, after: .init(0)))?.next == all[99].cursor)
        #expect(Self.page(await feed.part(of: Self.app, after: behind)) === last)
    }

    @Test func `a reader who leaves takes nothing from others`() async throws {
        let feed = feed(gathering: .zero)
        let readers = (0..<2).map { _ in Task { await feed.part(of: Self.app, after: .init(0)) } }
        while storage.reads == 0 { try await Task.sleep(for: .milliseconds(1)) }
        readers[0].cancel()
        #expect(await Self.page(readers[0].value) == nil)
        try await makeEvents(0..<1)
        #expect(Self.page(await readers[1].value)?.page.events.count == 1)
    }

    @Test(arguments: [
        ("3.a", "3.a", true), ("3.a", "5.a", true), ("3.a", "8.a", true), ("3.a", "9.a", false), ("3.a", "2.a", false),
        ("3.a", "5.b", false), ("3.a", "5", false), ("3.a", "x", false), ("0", "0", true), ("0", "5.a", false),
    ])
    func `a page goes on after its beginning, and after each cursor inside of its epoch`(
        start: String, cursor: String, goesOn: Bool
    ) {
        let page = WebhookPage(
            EventPage(events: [], customerIds: [:], next: .init(rawValue: "9.a")), after: .init(rawValue: start),
            isEnd: true)
        #expect(page.continues(after: .init(rawValue: cursor)) == goesOn)
    }
}

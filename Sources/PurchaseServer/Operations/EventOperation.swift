// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import PurchaseLedger
import ServiceLifecycle

/// The events about customers and purchases, page by page.
package enum ListEvents: NamedOperation {
    /// The maximum number of events on a page.
    private static let pageLimit = 500

    /// The most pages that a search for the newest events reads, if it finds all that it compares.
    private static let maxPages = 20

    private static let after = Field(
        "after", in: .query, "the cursor after which the page begins", standard: "the first event")
    private static let limit = Field(
        "limit", in: .query, "the most events on the page", .number(1...Int64(pageLimit)), standard: "100")
    private static let newest = Field(
        "newest", in: .query, "whether the page has the newest events, the newest first", .flag, standard: "false")
    /// Many proxies end an idle request after a minute.
    private static let wait = Field(
        "wait", in: .query, "the most seconds to wait for an event if there is none", .number(0...60), standard: "0")
    fileprivate static let kind = Field(
        "kind", in: .query, "only events of these kinds", .words(LedgerEvent.Kind.allCases.map(\.rawValue)),
        standard: "all kinds")
    fileprivate static let customer = Field(
        "customer", in: .query, "only events of the customer with this id", .text(.customerID),
        standard: "all customers")

    package static let operation = Operation(
        .get, "/v1/events", "returns a page of what changed", command: "events", roles: .readers,
        [after, limit, newest, wait, kind, .eventEnvironment, customer], errors: [.invalidCursor, .cursorExpired]
    ) { try await answer($0) }

    private static func answer(_ request: AuthenticatedRequest) async throws -> Answer<EventPageBody> {
        let limit = request.number(limit)
        let wait = request.number(wait)
        let filter = EventFilter(request)
        let isNewest = request[newest]?.bool == true
        guard !isNewest || request[after] == nil && wait == 0 else {
            throw Refusal.invalid("“newest” is possible with neither “after” nor “wait”.")
        }
        do {
            if isNewest { return try Answer(await newestPage(request, filter, limit)) }
            let (page, isAtEnd) = try await page(request, filter, limit)
            guard isAtEnd, wait > 0 else { return try Answer(EventPageBody(page)) }
            let position = EventPosition(bundleId: request.scope.bundleId, cursor: page.next)
            let time = min(.seconds(wait), request.server.bounds.maxWait)
            return try await answer(request, after: position, filter, limit, time)
        } catch let error as EventCursorError {
            throw Refusal(error)
        }
    }

    /// The first events that the filter lets through, among as many as a request compares. The page can be empty
    /// although more events follow.
    private static func page(
        _ request: AuthenticatedRequest, _ filter: EventFilter, _ limit: Int
    ) async throws -> (page: EventPage, isAtEnd: Bool) {
        let waits = request.number(wait) > 0 && filter.selection != nil
        let last = waits ? try await request.ledger.cursor(beforeNewest: 0, of: request.scope.bundleId) : nil
        // A further event shows where the page ends. Of those found for a customer, some may name others.
        let size = filter.selection == nil ? limit : filter.customers == nil ? min(limit + 1, pageLimit) : pageLimit
        let start = (request[after]?.string).map(EventCursor.init(rawValue:))
        let page = try await search(request, filter, after: start, size).first(limit)
        return (page, page.events.isEmpty && last?.number ?? 0 <= page.next.number ?? 0)
    }

    /// Of the first `size` events that the storage finds, those that the filter lets through.
    private static func search(
        _ request: AuthenticatedRequest, _ filter: EventFilter, after cursor: EventCursor?, _ size: Int
    ) async throws -> EventPage {
        var present = try await filter.withAllIds(in: request.ledger)
        while true {
            let searched = present
            let page = try await request.ledger.events(
                searched.selection, of: request.scope.bundleId, after: cursor, limit: size, at: request.wall)
            // The ids are read after the page too. If the customer has got one meanwhile, the page may lack events.
            present = try await filter.withAllIds(in: request.ledger)
            if present == searched { return present.matches(in: FoundEvents(page)) }
        }
    }

    /// The newest events that the filter lets through, among as many as a request compares.
    private static func newestPage(
        _ request: AuthenticatedRequest, _ filter: EventFilter, _ limit: Int
    ) async throws -> EventPageBody {
        let app = request.scope.bundleId
        let count = filter.selection?.among ?? limit
        let last = try await request.ledger.cursor(beforeNewest: 0, of: app)
        var start = try await request.ledger.cursor(beforeNewest: count, of: app)
        var items: [EventBody] = []
        var reads = 0
        while true {
            let page = try await search(request, filter, after: start, pageLimit)
            items = (items + page.events.suffix(limit).map { EventBody($0, in: page) }).suffix(limit)
            start = page.next
            reads += 1
            guard page.next.number ?? 0 < last?.number ?? 0, reads <= maxPages else {
                return EventPageBody(items.reversed(), next: page.next)
            }
        }
    }

    /// Waits for the next event. A shutdown ends the wait, and so does the revocation of the key.
    private static func answer(
        _ request: AuthenticatedRequest, after position: EventPosition, _ filter: EventFilter, _ limit: Int,
        _ time: Duration
    ) async throws -> Answer<EventPageBody> {
        let page = try await cancelWhenGracefulShutdown {
            try await request.wait {
                let server = request.server
                return try await request.service.followers.page(
                    after: position, matching: filter, upTo: limit, within: time, room: server.bounds.followers,
                    clock: server.clock, now: { request.wall })
            }
        }
        if let page { return try Answer(EventPageBody(page)) }
        let none = EventPageBody(EventPage(events: [], customerIds: [:], next: position.cursor))
        return Answer(
            json: try JSONWriter.bytes(publishing: none), headers: [.retryAfter: "\(ServerBounds.retryAfter)"])
    }
}

extension EventFilter {
    init(_ request: AuthenticatedRequest) {
        kinds = (request[ListEvents.kind]?.array).map { Set($0.compactMap(\.string)) }
        environment = request.environment
        customers = (request[ListEvents.customer]?.string).map { [CustomerID($0, of: request.scope.bundleId)] }
    }
}

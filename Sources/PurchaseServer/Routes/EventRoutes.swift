// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Hummingbird
package import PurchaseLedger
import ServiceLifecycle

/// The route `/v1/events`: the events about customers and purchases, page by page.
struct EventRoutes: Sendable {
    let authentication: Authentication
    let followers: EventFollowers
    let bounds: ServerBounds
    let clock: any Clock<Duration>

    /// The maximum number of events on a page.
    private static let pageLimit = 500

    /// The maximum number of pages that a request with a filter reads: a fraction of a second's work.
    private static let maxPages = 20

    /// The greatest `wait` in seconds. Many proxies end an idle request after a minute.
    private static let waitLimit = 60

    var routes: [APIRoute] {
        [
            authentication.route(
                .get, "/v1/events", "returns a page of what changed", role: .server,
                parameters: [
                    .init("after", "the cursor after which the page begins; the first event without it"),
                    .init("limit", "the most events on the page, from 1 to 500; 100 without it"),
                    .init("wait", "the most seconds to wait for an event if there is none, from 0 to 60; 0 without it"),
                    .init("kind", "only events of these kinds, separated by commas; all kinds without it"),
                    .eventEnvironment,
                    .init(
                        "customer", "only events of the customer with this id; all customers without it", .customerID),
                ],
                errors: [.invalidCursor, .cursorExpired]
            ) { try await answer($0) }
        ]
    }

    private func answer(_ request: AuthenticatedRequest) async throws -> Answer<EventPageBody> {
        let limit = try request.query.number("limit", in: 1...Self.pageLimit) ?? 100
        let wait = try request.query.number("wait", in: 0...Self.waitLimit) ?? 0
        let filter = try EventFilter(request)
        do {
            let (page, isAtEnd) = try await page(request, filter, limit)
            guard isAtEnd, wait > 0 else { return try Answer(EventPageBody(page)) }
            let position = EventPosition(bundleId: request.scope.bundleId, cursor: page.next)
            return try await answer(request, after: position, filter, limit, min(.seconds(wait), bounds.maxWait))
        } catch let error as EventCursorError {
            throw Refusal(error)
        }
    }

    /// The first page with events that the filter lets through, or an empty page: at the end of the events, or after
    /// as many pages as a request reads.
    private func page(
        _ request: AuthenticatedRequest, _ filter: EventFilter, _ limit: Int
    ) async throws -> (page: EventPage, isAtEnd: Bool) {
        var cursor = request.query["after"].map(EventCursor.init(rawValue:))
        var reads = 0
        while true {
            let page = try await request.ledger.events(
                of: request.scope.bundleId, after: cursor, limit: filter == EventFilter() ? limit : Self.pageLimit,
                at: authentication.wall())
            guard !page.events.isEmpty else { return (page, true) }
            // The ids are read after the page: two customers may have been merged since the request arrived.
            let matches = try await filter.withAllIds(in: request.ledger).matches(in: FoundEvents(page)).first(limit)
            cursor = page.next
            reads += 1
            guard matches.events.isEmpty, reads < Self.maxPages else { return (matches, false) }
        }
    }

    /// Waits for the next event. A shutdown ends the wait, and so does the revocation of the key.
    private func answer(
        _ request: AuthenticatedRequest, after position: EventPosition, _ filter: EventFilter, _ limit: Int,
        _ time: Duration
    ) async throws -> Answer<EventPageBody> {
        let page = try await cancelWhenGracefulShutdown {
            try await request.wait(clock) {
                try await followers.page(
                    after: position, matching: filter, upTo: limit, within: time, room: bounds.followers, clock: clock,
                    now: { request.now })
            }
        }
        if let page { return try Answer(EventPageBody(page)) }
        let none = EventPageBody(EventPage(events: [], customerIds: [:], next: position.cursor))
        return Answer(
            json: try JSONWriter.bytes(publishing: none), headers: [.retryAfter: "\(ServerBounds.retryAfter)"])
    }
}

extension EventFilter {
    init(_ request: AuthenticatedRequest) throws(Refusal) {
        kinds = try request.query["kind"].map(Self.kinds)
        environment = request.environment
        customers = request.query["customer"].map { [CustomerID($0, of: request.scope.bundleId)] }
    }

    private static func kinds(_ text: String) throws(Refusal) -> Set<String> {
        let kinds = Set(text.split(separator: ",", omittingEmptySubsequences: false).map(String.init))
        if let unknown = LedgerEvent.Kind.unknownName(in: kinds) {
            throw .invalid("kind has an unknown kind of event: “\(unknown.prefix(40))”.")
        }
        return kinds
    }
}

extension LedgerEvent.Kind {
    /// The first name without a kind of event; `nil` if each name is a kind.
    package static func unknownName(in names: Set<String>) -> String? {
        names.subtracting(allCases.map(\.rawValue)).min()
    }
}

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
            return try await answer(request, after: page.next, within: min(.seconds(wait), bounds.maxWait)) {
                try await filter.matches(in: $0, limit: limit)
            }
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
        var matches: EventPage
        var reads = 0
        repeat {
            let page = try await events(request, after: cursor, filter.isEmpty ? limit : Self.pageLimit)
            guard !page.events.isEmpty else { return (page, true) }
            matches = try await filter.matches(in: page, limit: limit)
            cursor = page.next
            reads += 1
        } while matches.events.isEmpty && reads < Self.maxPages
        return (matches, false)
    }

    private func events(
        _ request: AuthenticatedRequest, after cursor: EventCursor?, _ limit: Int
    ) async throws -> EventPage {
        try await request.ledger.events(
            of: request.scope.bundleId, after: cursor, limit: limit, at: authentication.wall())
    }

    /// Waits for the next event. A shutdown ends the wait, and so does the revocation of the key.
    private func answer(
        _ request: AuthenticatedRequest, after cursor: EventCursor, within time: Duration,
        _ select: @Sendable @escaping (EventPage) async throws -> EventPage
    ) async throws -> Answer<EventPageBody> {
        let none = EventPageBody(EventPage(events: [], customerIds: [:], next: cursor))
        let page = try await cancelWhenGracefulShutdown {
            try await request.wait(clock) {
                try await followers.page(
                    of: request.scope.bundleId, after: cursor, within: time, limit: bounds.followers, clock: clock,
                    search: { try await events(request, after: $0, Self.pageLimit) }, select)
            }
        }
        if let page { return try Answer(EventPageBody(page)) }
        return Answer(
            json: try JSONWriter.bytes(publishing: none), headers: [.retryAfter: "\(ServerBounds.retryAfter)"])
    }
}

/// The filter of a request for events.
struct EventFilter: Sendable {
    private let ledger: Ledger
    private let scope: LedgerScope
    /// The kinds; `nil` for all kinds.
    private let kinds: Set<String>?
    private let environment: RequestedEnvironment
    /// An id of the customer; `nil` for all customers.
    private let customer: String?

    init(_ request: AuthenticatedRequest) throws(Refusal) {
        ledger = request.ledger
        scope = request.scope
        kinds = try request.query["kind"].map(Self.kinds)
        environment = request.environment
        customer = request.query["customer"]
    }

    private static func kinds(_ text: String) throws(Refusal) -> Set<String> {
        let kinds = Set(text.split(separator: ",", omittingEmptySubsequences: false).map(String.init))
        if let unknown = LedgerEvent.Kind.unknownName(in: kinds) {
            throw .invalid("kind has an unknown kind of event: “\(unknown.prefix(40))”.")
        }
        return kinds
    }

    /// Whether the request has no filter.
    var isEmpty: Bool { kinds == nil && environment == .unnamed && customer == nil }

    /// The first events of a page that the filter lets through. The following page begins after these events, or after
    /// the page.
    func matches(in page: EventPage, limit: Int) async throws -> EventPage {
        let ids = try await ids()
        let matches = page.events.filter { includes($0, in: page, of: ids) }
        let events = Array(matches.prefix(limit))
        let next = matches.count > limit ? events.last?.cursor ?? page.next : page.next
        var selection = page
        selection.events = events
        selection.next = next
        return selection
    }

    /// The id, and all ids of the customer that has it now that the page has been read: the id may have become a
    /// further id of a customer, or two customers may have been merged, since the request arrived. `nil` for all
    /// customers.
    private func ids() async throws -> Set<CustomerID>? {
        guard let customer else { return nil }
        let all = try await ledger.ids(ofCustomer: customer, of: scope.bundleId)
        return Set((all + [customer]).map { CustomerID($0, of: scope.bundleId) })
    }

    private func includes(_ event: LedgerEvent, in page: EventPage, of ids: Set<CustomerID>?) -> Bool {
        if let kinds, !kinds.contains(event.kind.rawValue) { return false }
        // A customer belongs to all environments, so its merge and its deletion concern a follower of each.
        if case .one(let environment) = environment, event.scope.environment != environment,
            event.kind.known?.isAboutCustomer != true
        {
            return false
        }
        guard let ids, event.kind != .environmentsChanged else { return true }
        // Also the events after which an id names nobody: a reader then removes what it knows by the id.
        let former = [page.mergedId(of: event), page.removedId(of: event)] + (page.allDeletedIds(of: event) ?? [])
        let names = ([page.customerId(of: event)] + former).compactMap(\.self)
        return names.contains { ids.contains(CustomerID($0, of: scope.bundleId)) }
    }
}

extension LedgerEvent.Kind {
    /// The first name without a kind of event; `nil` if each name is a kind.
    package static func unknownName(in names: Set<String>) -> String? {
        names.subtracting(allCases.map(\.rawValue)).min()
    }
}

// SPDX-License-Identifier: Apache-2.0

import Hummingbird
import PurchaseLedger

/// The route `/v1/events`: what changed, page by page.
struct EventRoutes: Sendable {
    let keyed: KeyedRoutes

    /// The most events on a page.
    private static let pageLimit = 500

    func add(to router: Router<BasicRequestContext>) {
        router.get("/v1/events", use: keyed.handler(needs: .server, "The event") { try await events($0) })
    }

    private func events(_ request: KeyedRequest) async throws -> EventsBody? {
        let query = request.request.uri.queryParameters
        guard let limit = Int(query["limit"] ?? "100"), (1...Self.pageLimit).contains(limit) else {
            throw Refusal.invalid("limit must be a whole number from 1 to \(Self.pageLimit).")
        }
        // A backend that expected only production events would deliver goods for sandbox purchases.
        guard query["environment"] == nil else {
            throw Refusal.invalid(
                "Omit environment: events are those of all environments, and each names its environment.")
        }
        do {
            return EventsBody(
                try await request.ledger.events(
                    of: request.scope.bundleId, after: query["after"].map { EventCursor(rawValue: String($0)) },
                    limit: limit))
        } catch let error as EventCursorError {
            throw Refusal(error)
        }
    }
}

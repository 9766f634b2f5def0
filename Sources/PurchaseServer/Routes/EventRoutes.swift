// SPDX-License-Identifier: Apache-2.0

import Hummingbird
import PurchaseLedger

/// The route `/v1/events`: the changes, page by page.
struct EventRoutes: Sendable {
    let authentication: Authentication

    /// The maximum number of events on a page.
    private static let pageLimit = 500

    var routes: [APIRoute] {
        [
            authentication.route(
                .get, "/v1/events", "returns a page of what changed, in all environments of the app", role: .server,
                parameters: [
                    .init("after", "the cursor after which the page begins; the first event without it"),
                    .init("limit", "the most events on the page, from 1 to 500; 100 without it"),
                ],
                errors: [.invalidCursor, .cursorExpired]
            ) { try Answer(EventPageBody(await events($0))) }
        ]
    }

    private func events(_ request: AuthenticatedRequest) async throws -> EventPage {
        let query = request.query
        guard let limit = Self.limit(query["limit"] ?? "100") else {
            throw Refusal.invalid("limit must be a whole number from 1 to \(Self.pageLimit).")
        }
        do {
            return try await request.ledger.events(
                of: request.scope.bundleId, after: query["after"].map(EventCursor.init(rawValue:)), limit: limit)
        } catch let error as EventCursorError {
            throw Refusal(error)
        }
    }

    /// The number in a text; `nil` if the text is no number from 1 to 500. A plus sign, which `Int` would accept, is
    /// refused.
    private static func limit(_ text: String) -> Int? {
        guard text.utf8.first != UInt8(ascii: "+") else { return nil }
        return Int(text).flatMap { (1...pageLimit).contains($0) ? $0 : nil }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import PurchaseLedger

/// What is shown first to a person who looks after an app. Other commands show its parts: `jobs`, `products`,
/// `webhooks list`.
package enum ShowOverview: NamedOperation {
    package static let operation = Operation(
        .get, "/v1/overview", "shows what needs attention, and how many notifications arrived", roles: .readers, []
    ) { request in try Answer(await OverviewBody(of: request)) }
}

/// The JSON of what needs attention.
struct OverviewBody: Encodable, Sendable {
    /// The time of the answer, in milliseconds since 1970.
    var asOf: Timestamp
    /// The problems of the server that need attention, as in `concern` of `/health/ready`.
    var concerns: [ConcernBody]
    /// The time of the last arrival of a notification about the app, in milliseconds since 1970; absent if none is
    /// among the last 20,000 documents.
    var newestNotificationAt: Timestamp?
    /// The notifications about the app in each of the last 48 hours, the earliest first. At most the last 20,000
    /// documents of the ledger are counted, so that the first hours of a large server may show fewer.
    var notifications: [NotificationHourBody]
    /// The webhooks that get no events: paused, disabled, or failing.
    var waitingEndpoints: [WebhookBody] = []
    /// The number of jobs whose last attempt failed, and of parked documents.
    var failedJobs: Int
    /// Whether there may be more of them, because only the first 200 jobs of each kind and environment are read.
    var failedJobsArePartial: Bool
    /// The products of purchases of the last 30 days that are not in the configuration.
    var unknownProducts: [UnknownProductBody]

    /// The JSON of a problem of the server.
    struct ConcernBody: Encodable, Sendable {
        /// The part of the server: `storage`, `erasureJournal`, `clock`, `purchases`, `notificationHistory` or
        /// `webhooks`.
        var code: String
        /// What it is and what to do, as sentences.
        var message: String
    }

    /// The JSON of an hour in which notifications arrived.
    struct NotificationHourBody: Encodable, Sendable {
        /// The start of the hour, in milliseconds since 1970.
        var from: Timestamp
        /// The number of notifications.
        var count: Int
    }

    /// The JSON of a product that the configuration lacks.
    struct UnknownProductBody: Encodable, Sendable {
        /// The product.
        var productId: String
    }

    /// The bounds on what an answer reads. The documents are enough for 400 notifications an hour, and take some
    /// hundredths of a second; the products are more than a person reads.
    private static let bounds = (hours: 48, documents: 20_000, jobs: 200, products: 100)

    fileprivate init(of request: AuthenticatedRequest) async throws {
        let ledger = request.ledger
        let app = request.scope.bundleId
        let now = request.now
        asOf = now
        concerns = request.service.concerns.map { ConcernBody(code: $0.code, message: $0.message) }
        let hours = try await ledger.notificationHours(
            of: app, among: Self.bounds.documents, limit: Self.bounds.hours + 1)
        newestNotificationAt = hours.map(\.newest).max()
        notifications = Self.bars(hours, at: now)
        for endpoint in try await ledger.webhookEndpoints(of: app) {
            let progress = try await ledger.webhookProgress(of: endpoint.id, of: app)
            guard endpoint.state != .active || progress?.failingSince != nil else { continue }
            waitingEndpoints.append(WebhookBody(endpoint))
        }
        let failed = try await ledger.failedJobs(of: app, limit: Self.bounds.jobs)
        failedJobs = failed.count
        failedJobsArePartial = failed.isPartial
        unknownProducts = try await ledger.unknownProducts(of: app, limit: Self.bounds.products, at: now)
            .map { UnknownProductBody(productId: $0) }
    }

    /// All hours, also those without a notification.
    private static func bars(_ hours: [NotificationHour], at now: Timestamp) -> [NotificationHourBody] {
        let counts = Dictionary(hours.map { ($0.from, $0.count) }) { $0 + $1 }
        let last = now.milliseconds / NotificationHour.length
        return (0..<Int64(bounds.hours)).reversed().map { ago in
            let from = NotificationHour(last - ago, 0, newest: now).from
            return NotificationHourBody(from: from, count: counts[from] ?? 0)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import PurchaseLedger

/// An endpoint and the state of its deliveries.
package struct WebhookStatus: Sendable {
    package let endpoint: WebhookEndpoint
    /// `nil` if the progress cannot be read.
    package let progress: WebhookProgress?
    /// The number of failed events with a further attempt ahead.
    package let waiting: Int
    /// The number of events set aside: seldom more than `FailedDelivery.maxSetAside`.
    package let setAsideCount: Int
    /// The newest events set aside, the newest first.
    package let setAside: [FailedDelivery]

    /// The maximum number of events in ``setAside``: enough to see the kinds of failures.
    package static let maxSetAside = 100

    /// - Returns: `nil` if the app has no such endpoint.
    package init?(_ id: String, of bundleId: String, in ledger: Ledger) async throws {
        guard let endpoint = try await ledger.webhookEndpoint(id, of: bundleId) else { return nil }
        self.endpoint = endpoint
        progress = try await ledger.webhookProgress(of: id, of: bundleId)
        waiting = try await ledger.failedDeliveries(
            of: id, of: bundleId, setAside: false, limit: .max
        ).count
        let setAside = try await ledger.failedDeliveries(of: id, of: bundleId, setAside: true, limit: .max)
        setAsideCount = setAside.count
        self.setAside = setAside.suffix(Self.maxSetAside).reversed()
    }

    /// The cursor after which the deliveries of the slowest lane continue; `nil` if the progress cannot be read.
    package var oldestCursor: EventCursor? {
        progress?.positions.min { ($0.number ?? 0) < ($1.number ?? 0) }
    }
}

extension WebhookEndpoint {
    /// Makes the next secret the newest.
    package mutating func rotate(at now: Timestamp) {
        generation += 1
        rotatedAt = now
    }
}

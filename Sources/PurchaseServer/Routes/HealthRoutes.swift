// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
import Hummingbird
package import Logging
import PurchaseLedger

/// The routes under `/health`: whether the server runs, and whether the ledger accepts writes.
struct HealthRoutes: Sendable {
    let service: LedgerService?
    /// The address of the simulator whose time the server uses; `nil` for the machine's time.
    let simulator: String?
    let now: @Sendable () -> Timestamp

    /// The route that only `healthPort` has, for `quittance doctor`.
    static func configuration(_ digests: [String: String]) -> APIRoute {
        APIRoute(.get, "/health/configuration", "returns a keyed digest of each given setting") { _, _ in
            try Answer(ConfigurationBody(digests: digests))
        }
    }

    var routes: [APIRoute] {
        [
            APIRoute(.get, "/health/live", "says that the server runs") { _, _ in
                try Answer(HealthBody(status: "live"))
            },
            APIRoute(
                .get, "/health/ready", "says whether the ledger can be written", errors: [.storageUnavailable]
            ) { _, _ in try Answer(await readiness()) },
        ]
    }

    private func readiness() async throws -> HealthBody {
        guard let service else { return HealthBody(simulatorClock: simulator) }
        if let fault = await service.readiness.fault(at: now()) { throw fault }
        let last = try await lastNotification(service)
        return HealthBody(
            status: service.ledger.condition.isDegraded ? "degraded" : "ready",
            lastNotificationAccepted: Nullable(wrappedValue: last), concern: service.concern,
            simulatorClock: simulator)
    }

    private func lastNotification(_ service: LedgerService) async throws -> Timestamp? {
        do {
            return try await service.lastNotification.time(in: service.ledger)
        } catch  where service.ledger.condition.isDegraded {
            // A part of the ledger is unavailable, and the search for the last notification needs this part.
            return nil
        }
    }
}

extension LedgerService {
    /// The time of the last accepted notification; `nil` if none is known.
    package func lastNotificationTime() async throws -> Timestamp? { try await lastNotification.time(in: ledger) }

    /// Logs the time of the last accepted notification, for the log of the server's start.
    package func logLastNotification(to logger: Logger) async {
        do {
            let time = try await lastNotificationTime()
            logger.notice(
                time == nil ? "No accepted notification is known" : "The last notification was accepted",
                metadata: time.map { ["at": .string($0.iso8601)] })
        } catch {
            logger.error("Storage failed", metadata: ["error": .string("\(error)")])
        }
    }
}

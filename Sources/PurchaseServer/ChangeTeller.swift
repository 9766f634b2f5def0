// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Logging
import PurchaseLedger
import ServiceLifecycle

/// Tells of what changes by itself, such as a subscription that ends: soon after it does, and after downtime of all that
/// did meanwhile.
struct ChangeTeller: Service {
    /// How late an event may be. Looking costs one read of an index.
    private static let interval = Duration.seconds(1)

    let ledger: Ledger
    let now: @Sendable () -> Timestamp
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                await tell()
                try? await Task.sleep(for: Self.interval)
            }
        }
    }

    /// What cannot be told now is told later: whether it was stands in the ledger.
    private func tell() async {
        do {
            while try await ledger.tellChanges(at: now()) > 0, !Task.isCancelled {}
        } catch is CancellationError {
        } catch {
            logger.error("Changes could not be told", metadata: ["error": "\(error)"])
        }
    }
}

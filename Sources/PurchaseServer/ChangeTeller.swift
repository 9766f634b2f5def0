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
            var concern: String?
            while !Task.isCancelled {
                await tell()
                warn(unlessSaid: &concern)
                try? await Task.sleep(for: Self.interval)
            }
        }
    }

    /// Warns once of what an operator should look at, until it is over.
    private func warn(unlessSaid said: inout String?) {
        let concern = ledger.storage.concern
        if let concern, said == nil { logger.warning("The ledger needs a look", metadata: ["why": .string(concern)]) }
        said = concern
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

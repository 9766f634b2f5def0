// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import Logging
package import PurchaseLedger
import ServiceLifecycle

/// Tells of what changes by itself, such as a subscription that ends: soon after it does, and after downtime of all that
/// did meanwhile.
package struct ChangeTeller: Service {
    let ledger: Ledger
    let now: @Sendable () -> Timestamp
    let logger: Logger
    private let interval: Duration
    private let failure: RareWarning

    /// - Parameter interval: How late an event may be. Looking costs one read of an index.
    package init(
        ledger: Ledger, now: @escaping @Sendable () -> Timestamp, logger: Logger, interval: Duration = .seconds(1)
    ) {
        self.ledger = ledger
        self.now = now
        self.logger = logger
        self.interval = interval
        failure = RareWarning(level: .error, "Changes could not be published", [:], logger)
    }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            var concern: String?
            while !Task.isCancelled {
                await tell()
                warn(unlessSaid: &concern)
                try? await Task.sleep(for: interval)
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
            failure.log(["error": "\(error)"])
        }
    }
}

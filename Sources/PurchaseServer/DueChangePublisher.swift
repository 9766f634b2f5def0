// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import Logging
package import PurchaseLedger
import ServiceLifecycle

/// Publishes what changes by itself, such as a subscription that ends: soon after it does, and after downtime all that did
/// meanwhile. Erases the events that are older than the operator keeps them.
package struct DueChangePublisher: Service {
    /// How many chains are decided about at once.
    private static let chainLimit = 500

    /// How many events are erased at once: few, since documents that arrive wait meanwhile.
    private static let eventLimit = 5000

    /// How often events are erased. Retention is counted in days.
    private static let erasureInterval = Duration.seconds(3600)

    private let ledger: Ledger
    private let eventRetention: Duration?
    private let now: @Sendable () -> Timestamp
    private let clock: any Clock<Duration>
    private let logger: Logger
    private let interval: Duration
    private let failure: RareWarning

    /// - Parameters:
    ///   - eventRetention: How long events are kept; `nil` for good.
    ///   - interval: How late an event may be. Looking costs one read of an index.
    package init(
        ledger: Ledger, eventRetention: Duration? = nil, now: @escaping @Sendable () -> Timestamp,
        clock: any Clock<Duration>, logger: Logger, interval: Duration = .seconds(1)
    ) {
        self.ledger = ledger
        self.eventRetention = eventRetention
        self.now = now
        self.clock = clock
        self.logger = logger
        self.interval = interval
        failure = RareWarning(level: .error, "Changes could not be published", clock: clock, logger)
    }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            var (concern, state) = (String?.none, State())
            while !Task.isCancelled {
                await work(&state)
                warn(unlessSaid: &concern)
                try? await clock.sleep(for: interval)
            }
        }
    }

    /// Warns once of what an operator should look at, until it is over.
    private func warn(unlessSaid said: inout String?) {
        let concern = ledger.concern
        if let concern, said == nil { logger.warning("The ledger needs a look", metadata: ["why": .string(concern)]) }
        said = concern
    }

    private struct State {
        /// Whether what another catalogue changed was published. It cannot change while the server runs.
        var hasPublishedCatalogue = false
        var nextErasure: Timestamp?
    }

    /// What fails now is done later: the ledger knows what was published and what is left to erase.
    private func work(_ state: inout State) async {
        do {
            if !state.hasPublishedCatalogue { try await publishCatalogue() }
            state.hasPublishedCatalogue = true
            try await publish()
            guard let eventRetention, state.nextErasure.map({ now() >= $0 }) ?? true else { return }
            try await eraseEvents(before: now().advanced(by: .zero - eventRetention))
            state.nextErasure = now().advanced(by: Self.erasureInterval)
        } catch is CancellationError {
        } catch {
            failure.log(["error": "\(error)"])
        }
    }

    private func publishCatalogue() async throws {
        let count = try await ledger.publishCatalogueChanges(at: now())
        guard count > 0 else { return }
        logger.notice("The catalogue changed: purchases were evaluated again", metadata: ["purchases": "\(count)"])
    }

    private func publish() async throws {
        var count = Self.chainLimit
        while count >= Self.chainLimit, !Task.isCancelled {
            count = try await ledger.publishDueChanges(at: now(), limit: Self.chainLimit)
        }
    }

    private func eraseEvents(before instant: Timestamp) async throws {
        var count = Self.eventLimit
        while count >= Self.eventLimit, !Task.isCancelled {
            count = try await ledger.eraseEvents(before: instant, limit: Self.eventLimit)
        }
    }
}

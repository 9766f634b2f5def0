// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import Logging
package import PurchaseLedger
import ServiceLifecycle

/// Publishes changes that only time causes, such as the end of a subscription, and erases events that are older than
/// the configured retention. After downtime it publishes all changes that became due meanwhile.
package struct DueChangePublisher: Service {
    /// The most chains in one commit.
    private static let chainLimit = 500

    /// The most events that one commit erases. Arriving documents wait for the commit, so it must be short.
    private static let eventLimit = 5000

    /// How often events are erased. Retention is in days, so an hour is precise enough.
    private static let erasureInterval = Duration.seconds(3600)

    private let ledger: Ledger
    private let eventRetention: Duration?
    private let now: @Sendable () -> Timestamp
    private let clock: any Clock<Duration>
    private let logger: Logger
    private let interval: Duration
    private let failure: ThrottledWarning
    private let erasureFailure: ThrottledWarning
    private let damage: ThrottledWarning

    /// - Parameters:
    ///   - eventRetention: How long the ledger keeps events; `nil` keeps all.
    ///   - interval: The time between two searches for due changes, and so how late an event may be. A search reads one
    ///     index.
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
        failure = ThrottledWarning(level: .error, "Changes could not be published", clock: clock, logger)
        erasureFailure = ThrottledWarning(level: .error, "Old events could not be erased", clock: clock, logger)
        damage = ThrottledWarning(
            "Changes of damaged purchases are not published: run quittance check", clock: clock, logger)
    }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            async let catalogue: Void = publishCatalogue()
            await publishAndErase()
            await catalogue
        }
    }

    private func publishAndErase() async {
        var (concern, nextErasure) = (String?.none, Timestamp?.none)
        while !Task.isCancelled {
            await attempt(orLog: failure) { try await publishDueChanges() }
            await attempt(orLog: erasureFailure) { try await eraseOldEvents(&nextErasure) }
            warn(unlessLogged: &concern)
            try? await clock.sleep(for: interval)
        }
    }

    /// Runs `body`, and logs its error. The next round retries it, since the ledger knows what is left to do.
    ///
    /// - Returns: Whether it succeeded.
    @discardableResult
    private func attempt(orLog warning: ThrottledWarning, _ body: () async throws -> Void) async -> Bool {
        do {
            try await body()
            return true
        } catch is CancellationError {
            return false
        } catch {
            warning.log(["error": "\(error)"])
            return false
        }
    }

    /// Logs a concern of the ledger once, when it arises.
    private func warn(unlessLogged last: inout String?) {
        let concern = ledger.concern
        if let concern, last == nil {
            logger.warning("The ledger needs attention", metadata: ["why": .string(concern)])
        }
        last = concern
    }

    private func publishDueChanges() async throws {
        var (damaged, count) = (Set<ChainKey>(), Self.chainLimit)
        while count >= Self.chainLimit, !Task.isCancelled {
            count = try await ledger.publishDueChanges(at: now(), limit: Self.chainLimit, besides: &damaged)
        }
        if !damaged.isEmpty { damage.log(["error": "\(LedgerStorageError.damaged(damaged))"]) }
    }

    private func eraseOldEvents(_ next: inout Timestamp?) async throws {
        guard let eventRetention, next.map({ now() >= $0 }) ?? true else { return }
        try await eraseEvents(before: now().advanced(by: .zero - eventRetention))
        next = now().advanced(by: Self.erasureInterval)
    }

    private func eraseEvents(before instant: Timestamp) async throws {
        var count = Self.eventLimit
        while count >= Self.eventLimit, !Task.isCancelled {
            count = try await ledger.eraseEvents(before: instant, limit: Self.eventLimit)
        }
    }
}

// MARK: - The catalogue

extension DueChangePublisher {
    /// Publishes the changes that a changed catalogue causes: once, since the catalogue cannot change while the server
    /// runs. For a large ledger this takes minutes, and nothing else waits for it.
    private func publishCatalogue() async {
        while !Task.isCancelled, await !attempt(orLog: failure, { try await publishCatalogueChanges() }) {
            try? await clock.sleep(for: interval)
        }
    }

    private func publishCatalogueChanges() async throws {
        do {
            let count = try await ledger.publishCatalogueChanges(at: now())
            guard count > 0 else { return }
            logger.notice(
                "The catalogue changed: purchases were evaluated again", metadata: ["purchases": "\(count)"])
        } catch let error as LedgerStorageError where error.code == .damaged {
            logger.warning(
                "The catalogue changed, and damaged purchases were not evaluated: the next start retries",
                metadata: ["error": "\(error)"])
        }
    }
}

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

    /// How often the notices of all servers are read.
    private static let noticeInterval = Duration.seconds(60)

    /// The most notices of a kind that are read for one app and environment.
    private static let noticeLimit = 100

    /// Shows what the operator should look at; `nil` for none.
    package var board: NoticeBoard?
    /// The configuration of the apps whose notices are read, by bundle id.
    package var apps: [String: AppConfiguration] = [:]

    private let ledger: Ledger
    private let eventRetention: Duration?
    private let now: @Sendable () -> Timestamp
    private let clock: any Clock<Duration>
    private let logger: Logger
    private let interval: Duration
    private let failure: ThrottledWarning
    private let erasureFailure: ThrottledWarning
    private let damage: ThrottledWarning
    private let noticeFailure: ThrottledWarning

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
        noticeFailure = ThrottledWarning(level: .error, "Notices could not be read", clock: clock, logger)
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
        var (concern, nextErasure, nextReading) = (String?.none, Timestamp?.none, Timestamp?.none)
        while !Task.isCancelled {
            await attempt(orLog: failure) { try await publishDueChanges() }
            await attempt(orLog: erasureFailure) { try await eraseOldEvents(&nextErasure) }
            await attempt(orLog: noticeFailure) { try await showNotices(&nextReading) }
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
        while !Task.isCancelled, await !attempt(orLog: failure, { try await upgrade() }) {
            try? await clock.sleep(for: interval)
        }
    }

    /// Does once what this version changes about a ledger of an earlier one.
    private func upgrade() async throws {
        let report = try await ledger.upgrade(at: now())
        if report.droppedPurchases > 0 {
            logger.notice(
                "Purchases of Xcode and LocalTesting that an earlier version recorded were dropped: submit them again",
                metadata: ["purchases": "\(report.droppedPurchases)"])
        }
        for (app, count) in report.sandboxCustomers.sorted(by: { $0.key < $1.key })
        where count > 0 && apps[app]?.sandboxAccess ?? .all == .all {
            logger.notice(
                "Sandbox purchases count from now on, see sandboxAccess: these customers have entitlements by them",
                metadata: ["bundleId": .string(app), "customers": "\(count)"])
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

// MARK: - Notices

extension DueChangePublisher {
    /// Logs new notices, and once a minute reads those of all servers.
    private func showNotices(_ nextReading: inout Timestamp?) async throws {
        guard let board else { return }
        let due = board.takeDue(at: now())
        for (notice, count) in due { logger.warning(notice.message, metadata: notice.metadata(count)) }
        guard !due.isEmpty || nextReading.map({ now() >= $0 }) ?? true else { return }
        nextReading = now().advanced(by: Self.noticeInterval)
        var notices: [Notice] = []
        for bundleId in apps.keys.sorted() {
            let catalogue = ledger.rules.catalogue(of: bundleId)
            for environment in AppStoreModel.Environment.allCases {
                let scope = LedgerScope(bundleId: bundleId, environment: environment)
                let found = try await ledger.currentNotices(in: scope, at: now(), limit: Self.noticeLimit)
                notices += found.filter { $0.holds(catalogue) }
            }
        }
        notices += board.logged(at: now()).filter { $0.holds(ledger.rules.catalogue(of: $0.scope.bundleId)) }
        board.show(notices)
    }
}

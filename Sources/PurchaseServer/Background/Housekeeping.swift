// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import Logging
package import PurchaseLedger
import ServiceLifecycle

/// What a server does from time to time besides its jobs: it compares clocks, corrects what a clock that was ahead has
/// published, erases events that are older than the configured retention, shows notices, and lets the storage prepare
/// for the time that comes. Once, it publishes what a changed catalogue changes.
package struct Housekeeping: Service {
    /// How often it looks at what is over. A look that finds nothing asks nobody.
    private static let interval = Duration.seconds(1)

    /// The most chains in one commit.
    private static let chainLimit = 500

    /// The most events that one commit erases. Arriving documents wait for the commit, so it must be short.
    private static let eventLimit = 5000

    /// How often events are erased. Retention is in days, so an hour is precise enough.
    private static let erasureInterval = Duration.seconds(3600)

    /// How often chains are searched that another server's clock was ahead for. While it still is, each of the two
    /// servers would publish again and again about the same chains.
    private static let correctionInterval = Duration.seconds(60)

    /// How often the clock is compared with the database's.
    private static let clockInterval = Duration.seconds(60)

    /// How often the notices of all servers are read.
    private static let noticeInterval = Duration.seconds(60)

    /// How often the storage prepares for the time that comes. It prepares for months, so an attempt that fails is
    /// repeated in time.
    private static let preparationInterval = Duration.seconds(3600)

    /// The most notices of a kind that are read: more than a board shows.
    private static let noticeLimit = 1000

    /// Shows what the operator should look at; `nil` for none.
    package var board: NoticeBoard?
    /// The configuration of the apps whose notices are read, by bundle id.
    package var apps: [String: AppConfiguration] = [:]
    /// Judges the clock; `nil` if it counts as right.
    package var judge: ClockJudge?

    private let ledger: Ledger
    private let eventRetention: Duration?
    private let now: @Sendable () -> Timestamp
    private let clock: any Clock<Duration>
    private let logger: Logger
    private let failure: ThrottledWarning
    private let erasureFailure: ThrottledWarning
    private let noticeFailure: ThrottledWarning
    private let clockFailure: ThrottledWarning

    /// - Parameter eventRetention: How long the ledger keeps events; `nil` keeps all.
    package init(
        ledger: Ledger, eventRetention: Duration? = nil, now: @escaping @Sendable () -> Timestamp,
        clock: any Clock<Duration>, logger: Logger
    ) {
        self.ledger = ledger
        self.eventRetention = eventRetention
        self.now = now
        self.clock = clock
        self.logger = logger
        failure = ThrottledWarning(level: .error, "Changes could not be published", clock: clock, logger)
        erasureFailure = ThrottledWarning(level: .error, "Old events could not be erased", clock: clock, logger)
        noticeFailure = ThrottledWarning(level: .error, "Notices could not be read", clock: clock, logger)
        clockFailure = ThrottledWarning("The database's clock could not be read", clock: clock, logger)
    }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            async let catalogue: Void = publishCatalogue()
            await keepHouse()
            await catalogue
        }
    }

    private func keepHouse() async {
        var erasure = Interval(Self.erasureInterval, clock)
        var reading = Interval(Self.noticeInterval, clock)
        var comparison = Interval(Self.clockInterval, clock)
        var preparation = Interval(Self.preparationInterval, clock)
        var correction = Interval(Self.correctionInterval, clock)
        var lastRound = now()
        var concern: String?
        var doubt: String?
        while !Task.isCancelled {
            await clockFailure.attempt { try await compareClocks(&comparison) }
            warnOfClock(unlessLogged: &doubt)
            await failure.attempt { try await publishCorrections(&correction, &lastRound) }
            await erasureFailure.attempt { try await eraseOldEvents(&erasure) }
            await noticeFailure.attempt { try await showNotices(&reading) }
            await prepare(&preparation)
            warn(unlessLogged: &concern)
            await clock.pause(for: Self.interval)
        }
    }

    /// Logs a concern of the ledger once, when it arises.
    private func warn(unlessLogged last: inout String?) {
        let concern = ledger.condition.concern
        if let concern, last == nil {
            logger.warning("The ledger needs attention", metadata: ["why": .string(concern)])
        }
        last = concern
    }

    /// Publishes the present state of chains about which a clock that was ahead published changes too early: at once if
    /// it was this server's.
    private func publishCorrections(_ interval: inout Interval, _ lastRound: inout Timestamp) async throws {
        let now = now()
        let isSetBack = now < lastRound
        lastRound = now
        guard isSetBack || interval.isOver else { return }
        interval.begin()
        var damaged: Set<ChainKey> = []
        var count = Self.chainLimit
        var total = 0
        while count >= Self.chainLimit, !Task.isCancelled {
            count = try await ledger.publishCorrections(at: now, limit: Self.chainLimit, besides: &damaged)
            total += count
        }
        guard total > 0 else { return }
        logger.warning(
            "A clock was ahead, so changes were published too early: their purchases were published again",
            metadata: ["purchases": "\(total)"])
    }

    private func prepare(_ interval: inout Interval) async {
        guard interval.isOver else { return }
        interval.begin()
        await ledger.prepare(at: now())
    }

    /// Erases what is older than the retention. That cannot be undone, so while the clock is doubtful nothing is
    /// erased. Until something shows that the clock is right, the age of events is counted from what is proven.
    private func eraseOldEvents(_ interval: inout Interval) async throws {
        // The judge is asked after the clock was read, and so notices if that time is wrong.
        let now = now()
        guard let eventRetention, interval.isOver, judge?.isDoubtful != true else { return }
        let time = judge?.isConfirmed ?? true ? now : try await ledger.provenTime(at: now)
        try await eraseEvents(before: time.advanced(by: .zero - eventRetention))
        interval.begin()
    }

    private func eraseEvents(before instant: Timestamp) async throws {
        var count = Self.eventLimit
        while count >= Self.eventLimit, !Task.isCancelled {
            count = try await ledger.eraseEvents(before: instant, limit: Self.eventLimit)
        }
    }
}

// MARK: - The clock

extension Housekeeping {
    private func compareClocks(_ interval: inout Interval) async throws {
        guard let judge, interval.isOver else { return }
        interval.begin()
        if let distance = try await ledger.clockDifference(now: now) { judge.compare(aheadBy: distance, of: .database) }
    }

    /// Logs when the clock becomes doubtful, and when that is settled.
    private func warnOfClock(unlessLogged last: inout String?) {
        let concern = judge?.concern
        if let concern, last == nil { logger.warning("\(concern)") }
        if concern == nil, last != nil { logger.notice("The machine's clock is not doubtful any more") }
        last = concern
    }
}

// MARK: - The catalogue

extension Housekeeping {
    /// Publishes the changes that a changed catalogue causes: once, since the catalogue cannot change while the server
    /// runs. For a large ledger this takes minutes, and nothing else waits for it.
    private func publishCatalogue() async {
        while !Task.isCancelled, await !failure.attempt(publishCatalogueChanges) {
            await clock.pause(for: Self.interval)
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

extension Housekeeping {
    /// Logs new notices, and once a minute reads those of all servers.
    private func showNotices(_ interval: inout Interval) async throws {
        guard let board else { return }
        let due = board.takeDue(at: now())
        for (notice, count) in due { logger.warning(notice.message, metadata: notice.metadata(count)) }
        guard !due.isEmpty || interval.isOver else { return }
        interval.begin()
        var notices = try await ledger.currentNotices(at: now(), limit: Self.noticeLimit) {
            apps[$0.scope.bundleId] != nil && $0.holds(ledger.rules.catalogue(of: $0.scope.bundleId))
        }
        notices += board.logged(at: now()).filter { $0.holds(ledger.rules.catalogue(of: $0.scope.bundleId)) }
        board.show(notices)
    }
}

// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import Logging
package import PurchaseLedger
import ServiceLifecycle

/// The periodic tasks of a server besides its jobs. The service compares clocks, and corrects premature changes that a
/// fast clock caused. The service erases events older than the configured retention, the ids of customers deleted 30
/// days ago, and the oldest of many events set aside for a webhook. The service shows notices, and lets the storage
/// prepare for the coming months. At the start the service publishes the changes that a changed configuration causes.
package struct Housekeeping: Service {
    /// The time between two rounds. Most rounds send the database no request, because no interval is over.
    private static let interval = Duration.seconds(1)

    /// The most chains in one commit. A chain is a subscription with its renewals, or a product bought once.
    private static let chainLimit = 500

    /// The most events that one commit erases. The commit must be short, because arriving documents wait for it.
    private static let eventLimit = 5000

    /// The most ids of deleted customers, or entries of the audit list, that one commit erases, so that it stays short.
    private static let deletionLimit = 500

    /// The time between two erasures of events, of the ids of deleted customers, and of events set aside. All are kept
    /// for days, so an hour is precise enough.
    private static let erasureInterval = Duration.seconds(3600)

    /// The time for which a new server takes all active webhooks for served: by then the server serves its own
    /// webhooks, also if a crashed server had them.
    private static let leaseTime = Duration.seconds(300)

    /// The time between two searches for changes that a server with a fast clock published too early. While its clock
    /// stays fast, that server publishes a change again after each correction. A longer interval keeps these
    /// repetitions few.
    private static let correctionInterval = Duration.seconds(60)

    /// The time between two comparisons of the clock with the database's clock.
    private static let clockInterval = Duration.seconds(60)

    /// The time between two reads of the notices of all servers.
    private static let noticeInterval = Duration.seconds(60)

    /// The time between two preparations of the storage. The storage prepares for months ahead, so a failed attempt is
    /// repeated in time.
    private static let preparationInterval = Duration.seconds(3600)

    /// The time between two trials of the journal of erasures.
    private static let trialInterval = Duration.seconds(60)

    /// The time between two attempts at a late proof.
    private static let proofInterval = Duration.seconds(5)

    /// The most notices of one kind that one read returns: more than the sentences of a ``NoticeBoard`` name.
    private static let noticeLimit = 1000

    /// Shows notices to the operator; `nil` for no board.
    package var board: NoticeBoard?
    /// The configuration of the apps whose notices are read, by bundle id.
    package var apps: [String: AppConfiguration] = [:]
    /// For which customers sandbox purchases count, by app.
    package var sandboxSettings: [SandboxSetting] = []
    /// The age at which entries of the audit list are erased; `nil` keeps all entries.
    package var auditRetention: Duration?
    /// Judges the clock; `nil` if the clock counts as correct.
    package var judge: ClockJudge?
    /// Returns the time of the machine, by which webhooks are served and the ids in events go; `nil` if the ledger's
    /// time is the machine's.
    package var wall: (@Sendable () -> Timestamp)?
    /// See ``LedgerService/lateProof``.
    package var lateProof: (@Sendable () async throws -> Void)?
    /// The journal of erasures, which is tried; `nil` for none.
    package var erasures: ErasureJournalFile?

    private let ledger: Ledger
    private let eventRetention: Duration?
    private let now: @Sendable () -> Timestamp
    private let clock: any Clock<Duration>
    private let logger: Logger
    private let failure: ThrottledWarning
    private let erasureFailure: ThrottledWarning
    private let deletionFailure: ThrottledWarning
    private let setAsideFailure: ThrottledWarning
    private let noticeFailure: ThrottledWarning
    private let clockFailure: ThrottledWarning

    /// - Parameter eventRetention: The age at which events are erased; `nil` keeps all events.
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
        deletionFailure = ThrottledWarning(
            level: .error, "The ids of deleted customers could not be erased", clock: clock, logger)
        setAsideFailure = ThrottledWarning(
            level: .error, "Old events set aside could not be erased", clock: clock, logger)
        noticeFailure = ThrottledWarning(level: .error, "Notices could not be read", clock: clock, logger)
        clockFailure = ThrottledWarning("The database's clock could not be read", clock: clock, logger)
    }

    package func run() async throws {
        try await cancelWhenGracefulShutdown {
            async let catalogue: Void = publishCatalogue()
            async let house: Void = keepHouse()
            async let trials: Void = tryErasures()
            // A refusal ends the server, as it would have ended the start.
            try await proveLate()
            await house
            await trials
            await catalogue
        }
    }

    private func proveLate() async throws {
        while let lateProof, !Task.isCancelled {
            await clock.pause(for: Self.proofInterval)
            do {
                try await lateProof()
                return logger.notice("Roots and erasures are those of the ledger")
            } catch let error as LedgerStorageError where error.code == .unavailable {}
        }
    }

    private func keepHouse() async {
        let elapsed = clock.stopwatch()
        var erasure = Interval(Self.erasureInterval, clock)
        var deletion = Interval(Self.erasureInterval, clock)
        var setAside = Interval(Self.erasureInterval, clock)
        var reading = Interval(Self.noticeInterval, clock)
        var comparison = Interval(Self.clockInterval, clock)
        var preparation = Interval(Self.preparationInterval, clock)
        var correction = Interval(Self.correctionInterval, clock)
        var lastRound = now()
        var concern: String?
        var doubt: String?
        while !Task.isCancelled {
            await clockFailure.attempt { try await compareClocks(&comparison) }
            say(judge?.concern, orThat: "The machine's clock is not doubtful any more", unlessLogged: &doubt)
            await failure.attempt { try await publishCorrections(&correction, &lastRound) }
            await erasureFailure.attempt { try await eraseOldEvents(&erasure, isNew: elapsed() < Self.leaseTime) }
            await deletionFailure.attempt { try await eraseDeletedIds(&deletion) }
            await setAsideFailure.attempt { try await eraseOldSetAside(&setAside) }
            await noticeFailure.attempt { try await showNotices(&reading) }
            await prepare(&preparation)
            say(ledger.condition.concern, under: "The ledger needs attention", unlessLogged: &concern)
            await clock.pause(for: Self.interval)
        }
    }

    /// Tries the journal of erasures, and logs its fault. A disk that hangs must not stop the other tasks.
    private func tryErasures() async {
        var fault: String?
        while let erasures, !Task.isCancelled {
            await erasures.tryWriting()
            say(erasures.fault, orThat: "The journal of erasures can be written again", unlessLogged: &fault)
            await clock.pause(for: Self.trialInterval)
        }
    }

    /// Logs a concern once, when it arises, and when it ends.
    ///
    /// - Parameters:
    ///   - title: The message, with the concern as `why`; `nil` for the concern as the message.
    ///   - end: The message when the concern ends; `nil` for none.
    private func say(
        _ concern: String?, under title: Logger.Message? = nil, orThat end: Logger.Message? = nil,
        unlessLogged last: inout String?
    ) {
        if let concern, last == nil {
            logger.warning(title ?? "\(concern)", metadata: title.map { _ in ["why": .string(concern)] })
        }
        if let end, concern == nil, last != nil { logger.notice(end) }
        last = concern
    }

    /// Publishes the present state of chains whose changes a fast clock published too early. The search is periodic,
    /// and also begins at once if this server's own clock was set back.
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

    /// Erases events and entries of the audit list older than their retention. Erasure cannot be undone, so nothing is
    /// erased while the clock is doubtful. Until the clock is confirmed, the age is measured from the ledger's proven
    /// time: the newest date at which the App Store signed a document. Events that an active webhook still needs stay.
    ///
    /// - Parameter isNew: Whether the server has begun too lately to know which webhooks no server serves.
    private func eraseOldEvents(_ interval: inout Interval, isNew: Bool) async throws {
        // The clock is read before the judge is asked, so that the judge's answer covers this reading too.
        let now = now()
        guard eventRetention ?? auditRetention != nil, interval.isOver, judge?.isDoubtful != true else { return }
        interval.begin()
        let time = judge?.isConfirmed ?? true ? now : try await ledger.provenTime(at: now)
        if let auditRetention { try await eraseAudit(before: time.advanced(by: .zero - auditRetention)) }
        guard let eventRetention else { return }
        let needed = try await ledger.webhooksNeedEvents(at: isNew ? nil : wall?() ?? time)
        let instant = time.advanced(by: .zero - eventRetention)
        try await eraseEvents(before: min(instant, needed ?? instant))
    }

    /// Erases the ids of customers deleted 30 days ago, by the same time as old events. A clock that is ahead would
    /// erase the ids before all readers of events have seen the deletion.
    private func eraseDeletedIds(_ interval: inout Interval) async throws {
        var now = wall?() ?? now()
        guard interval.isOver, judge?.isDoubtful != true else { return }
        interval.begin()
        if judge?.isConfirmed == false { now = try await ledger.provenTime(at: now) }
        var count = Self.deletionLimit
        while count >= Self.deletionLimit, !Task.isCancelled {
            count = try await ledger.eraseDeletedIds(at: now, limit: Self.deletionLimit)
        }
    }

    /// Erases the oldest of the events that were set aside for a webhook.
    private func eraseOldSetAside(_ interval: inout Interval) async throws {
        guard interval.isOver else { return }
        interval.begin()
        for endpoint in try await ledger.webhookEndpoints() {
            let count = try await ledger.eraseOldSetAside(of: endpoint, at: now())
            guard count > 0 else { continue }
            logger.warning(
                "The oldest events set aside for a webhook were dropped, and cannot be replayed by --set-aside",
                metadata: endpoint.metadata(["count": "\(count)"]))
        }
    }

    private func eraseAudit(before instant: Timestamp) async throws {
        var count = Self.deletionLimit
        while count >= Self.deletionLimit, !Task.isCancelled {
            count = try await ledger.eraseAudit(before: instant, limit: Self.deletionLimit)
        }
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
}

// MARK: - The catalogue

extension Housekeeping {
    /// Publishes the changes that a changed configuration causes: the catalogue, or the customers whose sandbox
    /// purchases count. One success is enough, since neither can change while the server runs. For a large ledger this
    /// task takes minutes, and no other task waits for the result.
    private func publishCatalogue() async {
        while !Task.isCancelled, await !failure.attempt(publishCatalogueChanges) {
            await clock.pause(for: Self.interval)
        }
    }

    private func publishCatalogueChanges() async throws {
        try await ledger.publish(sandboxSettings, at: now())
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
    /// Logs new notices. Then, and at least once a minute, reads the notices of all servers and shows them on the
    /// board.
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

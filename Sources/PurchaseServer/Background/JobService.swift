// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import Logging
import PurchaseLedger
import Reconciliation
import ServiceLifecycle

/// Performs the due jobs, and publishes the due changes of purchases, in all apps and environments.
package struct JobService: Service {
    /// The time between two searches of the ledger. This is also the longest time until the server notices a due job or
    /// change. Commits of this server itself wake the service at once, but jobs added by another server or a command,
    /// and jobs made due by a jump of a simulator's clock, wait for the next search.
    private static let interval = Duration.seconds(1)

    /// The time between two searches for jobs postponed by a fast clock.
    private static let pullBackInterval = Duration.seconds(3600)

    /// If the clock is set back by more than this duration, the search for postponed jobs begins at once. A clock that
    /// was fast by less has postponed no job for long.
    private static let clockStep = Duration.seconds(60)

    /// The most chains in one commit. A chain is a subscription with its renewals, or a product bought once.
    private static let chainLimit = 500

    private let ledger: Ledger
    private let runner: JobRunner
    private let signal: DueSignal
    private let recurring: [Reconciler]
    private let now: @Sendable () -> Timestamp
    private let clock: any Clock<Duration>
    private let interval: Duration
    private let failure: ThrottledWarning
    private let undone: ThrottledWarning
    private let publishing: ThrottledWarning
    private let damage: ThrottledWarning

    /// - Parameters:
    ///   - service: Its ``LedgerService/jobs`` are the kinds of jobs to perform. Commits of its ledger wake this
    ///     service if they leave a due job or a due change.
    ///   - interval: The time between two searches.
    package init(
        _ service: LedgerService, now: @escaping @Sendable () -> Timestamp, clock: any Clock<Duration>, logger: Logger,
        interval: Duration = interval
    ) {
        ledger = service.ledger
        signal = service.dueSignal
        recurring = service.reconcilers?.all.values.sorted { $0.scope < $1.scope } ?? []
        self.now = now
        self.clock = clock
        self.interval = interval
        let warnings = JobWarnings(clock: clock, logger: logger)
        runner = JobRunner(service.ledger, service.jobs, now: now) { warnings.log($0) }
        failure = ThrottledWarning(level: .error, "The ledger cannot be searched for jobs", clock: clock, logger)
        undone = ThrottledWarning(
            level: .error, "A job was not done, and is done again when its lease ends", clock: clock, logger)
        publishing = ThrottledWarning(level: .error, "Changes could not be published", clock: clock, logger)
        damage = ThrottledWarning(
            "Changes of damaged purchases are not published: run quittance check", clock: clock, logger)
    }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            let signals = signal.signals()
            let (publications, publish) = AsyncStream.makeStream(
                of: Void.self, bufferingPolicy: .bufferingNewest(1))
            await withDiscardingTaskGroup { group in
                group.addTask { await tick() }
                group.addTask { await pullBack() }
                group.addTask { for await _ in publications { await publishDueChanges() } }
                group.addTask { await start() }
                signal.noteDue()
                for await _ in signals {
                    for job in await begin(publish) {
                        group.addTask {
                            await undone.attempt(about: JobWarnings.metadata(job)) {
                                try await runner.perform(job)
                            }
                            signal.noteRoom()
                        }
                    }
                }
            }
        }
    }

    /// Requests a search of the ledger after each `interval`.
    private func tick() async {
        while await clock.pause(for: interval) { signal.noteDue() }
    }

    /// Stores the recurring jobs. A failed attempt is retried, unless the stored job is damaged.
    private func start() async {
        var left = recurring
        while !left.isEmpty, !Task.isCancelled {
            var failed: [Reconciler] = []
            for reconciler in left where await !failure.attempt({ try await start(reconciler) }) {
                failed.append(reconciler)
            }
            left = failed
            if !left.isEmpty { await clock.pause(for: interval) }
        }
    }

    private func start(_ reconciler: Reconciler) async throws {
        do {
            try await reconciler.start()
        } catch let error as LedgerStorageError where error.code == .damaged {
            failure.log(["error": "\(error)"])
        }
    }

    private func begin(_ publish: AsyncStream<Void>.Continuation) async -> [Job] {
        if signal.takeDue() { runner.search() }
        var jobs: [Job] = []
        await failure.attempt {
            let beginning = try await runner.begin()
            jobs = beginning.jobs
            if beginning.hasDueChains { publish.yield() }
            if beginning.isOutdated { signal.noteDue() }
            if let failure = beginning.failure { throw failure }
        }
        return jobs
    }

    /// Brings forward jobs that a fast clock has postponed too far: once an hour, and when the clock is set back.
    private func pullBack() async {
        var last = now()
        var pause = Interval(Self.pullBackInterval, clock)
        repeat {
            let now = now()
            if now.advanced(by: Self.clockStep) < last || pause.isOver {
                pause.begin()
                await failure.attempt { _ = try await runner.pullBack() }
            }
            last = now
        } while await clock.pause(for: interval)
    }

    /// Publishes changes that only time causes, such as the end of a subscription. After downtime the service publishes
    /// all changes that became due meanwhile.
    private func publishDueChanges() async {
        var damaged: Set<ChainKey> = []
        await publishing.attempt {
            var count = Self.chainLimit
            while count >= Self.chainLimit, !Task.isCancelled {
                count = try await ledger.publishDueChanges(at: now(), limit: Self.chainLimit, besides: &damaged)
            }
        }
        if !damaged.isEmpty { damage.log(["error": "\(LedgerStorageError.damaged(damaged))"]) }
    }
}

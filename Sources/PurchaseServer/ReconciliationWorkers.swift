// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Logging
import PurchaseLedger
import Reconciliation
import ServiceLifecycle

/// Does the jobs of reconciliation as they fall due, for all apps and environments.
struct ReconciliationWorkers: Service {
    /// Enough to use Apple's 50 requests a second with answers that take a seventh of a second. Each worker waits for
    /// one answer at a time.
    private static let workers = 8

    /// How often a worker looks for a job. A search reads one index.
    private static let interval = Duration.seconds(1)

    private let reconcilers: [Reconciler]
    private let clock: any Clock<Duration>
    private let failure: ThrottledWarning

    init(_ questions: AppStoreQuestions, clock: any Clock<Duration>, logger: Logger) {
        let postponed = ThrottledWarning("A question to the App Store is postponed", clock: clock, logger)
        let unanswered = ThrottledWarning("A consumption request was not answered", clock: clock, logger)
        let unread = ThrottledWarning("A part of the notification history was not read", clock: clock, logger)
        failure = ThrottledWarning(level: .error, "The ledger has no job for the App Store", clock: clock, logger)
        self.clock = clock
        reconcilers = questions.reconcilers.values.map { reconciler in
            var reconciler = reconciler
            reconciler.onFailure = { job in
                let isClosed = ConsumptionQuestion(job).map { $0.state != .waiting } ?? false
                let about = Self.metadata(job)
                // Each such job is logged: nobody asks again by itself.
                guard !job.isGivenUp else {
                    return logger.warning("A question to the App Store was given up", metadata: about)
                }
                (isClosed ? unanswered : postponed).log(about)
            }
            reconciler.onUnread = { unread.log(Self.metadata($0)) }
            return reconciler
        }
    }

    private static func metadata(_ job: Job) -> Logger.Metadata {
        [
            "kind": .string(job.id.kind.rawValue), "bundleId": .string(job.id.scope.bundleId),
            "environment": .string(job.id.scope.environment.rawValue), "reason": .string(job.failure ?? ""),
        ]
    }

    func run() async throws {
        await cancelWhenGracefulShutdown {
            await withTaskGroup(of: Void.self) { group in
                for reconciler in reconcilers {
                    for _ in 0..<Self.workers { group.addTask { await work(reconciler) } }
                }
            }
        }
    }

    private func work(_ reconciler: Reconciler) async {
        var hasStarted = false
        while !Task.isCancelled {
            do {
                if !hasStarted { try await reconciler.start() }
                hasStarted = true
                while try await reconciler.workOnce(), !Task.isCancelled {}
            } catch is CancellationError {
                return
            } catch {
                failure.log(["error": "\(error)"])
            }
            try? await clock.sleep(for: Self.interval)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Logging
import PurchaseLedger
import Reconciliation

/// The log lines about failed jobs.
struct JobWarnings {
    private let logger: Logger
    private let postponed: ThrottledWarning
    private let unanswered: ThrottledWarning
    private let unread: ThrottledWarning

    init(clock: any Clock<Duration>, logger: Logger) {
        self.logger = logger
        postponed = ThrottledWarning("A question to the App Store is postponed", clock: clock, logger)
        unanswered = ThrottledWarning("A consumption request was not answered", clock: clock, logger)
        unread = ThrottledWarning("A part of the notification history was not read", clock: clock, logger)
    }

    /// Logs the reason why a job was postponed, given up or refused.
    func log(_ job: Job) {
        // Each job that was given up is logged without throttling, because the server does not retry the job on its
        // own.
        guard !job.isGivenUp else {
            return logger.warning("A question to the App Store was given up", metadata: Self.metadata(job))
        }
        let isClosed = ConsumptionQuestion(job).map { $0.state != .waiting } ?? false
        (isClosed ? unanswered : postponed).log(Self.metadata(job))
    }

    /// Logs that a part of the notification history was not read.
    func logUnread(_ job: Job) { unread.log(Self.metadata(job)) }

    static func metadata(_ job: Job) -> Logger.Metadata {
        [
            "kind": .string(job.id.kind.rawValue), "bundleId": .string(job.id.scope.bundleId),
            "environment": .string(job.id.scope.environment.rawValue), "reason": .string(job.failure ?? ""),
        ]
    }
}

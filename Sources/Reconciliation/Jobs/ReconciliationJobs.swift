// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreTrust
public import PurchaseLedger

// The kinds of a reconciler's jobs, for the table of a job runner.

extension Reconciler {
    /// The job kinds of all reconcilers, each for an app and environment.
    public static func jobs(of reconcilers: [LedgerScope: Reconciler]) -> [JobKind] {
        /// Makes a job kind. Each job runs on the reconciler of its app and environment, and may fail with an App Store
        /// error or an invalid document.
        func kind(
            _ kind: Job.Kind, weight: Int, maxAtOnce: Int,
            _ perform: @escaping @Sendable (Reconciler, LeasedJob) async throws -> JobOutcome
        ) -> JobKind {
            JobKind(kind, in: reconcilers.keys, weight: weight, maxAtOnce: maxAtOnce) { lease in
                guard let reconciler = reconcilers[lease.job.id.scope] else { throw LeaseLost() }
                let answers = reconciler.client.answers(in: reconciler.scope.environment)
                defer {
                    // Any answer since the start shows that the App Store can be reached, even an answer to a
                    // concurrent job.
                    if reconciler.client.answers(in: reconciler.scope.environment) != answers { lease.noteAnswer() }
                }
                do {
                    return try await perform(reconciler, lease)
                } catch {
                    throw reconciler.failure(error, of: lease.job)
                }
            }
        }
        // Consumption information has the greatest weight, because Apple waits for it only for a limited time. The
        // notification history is next, because it may answer the questions of the other jobs.
        var consumption = kind(.consumption, weight: 5, maxAtOnce: 8) { try await $0.answerConsumption($1.job) }
        consumption.maxWait = { job in
            let isOpen = ConsumptionQuestion(job)?.state == .waiting
            return isOpen ? ConsumptionQuestion.timeout(in: job.id.scope.environment) : ConsumptionQuestion.retention
        }
        var history = kind(.notificationHistory, weight: 4, maxAtOnce: 1) { try await $0.readHistory($1) }
        let interval = reconcilers.values.map(\.historyInterval).max() ?? .zero
        // Limits the pause after failures, so that after an outage the history is read again within the interval
        // between two readings. If the reconcilers have different intervals, the longest counts.
        history.maxRetry = interval
        history.maxWait = { _ in max(interval, .seconds(3600)) }
        var customer = kind(.customerHistory, weight: 3, maxAtOnce: 4) { try await $0.goOnWithHistory($1) }
        customer.maxWait = { $0.isGivenUp ? Job.retention : .seconds(3600) }
        var status = kind(.subscriptionStatus, weight: 2, maxAtOnce: 8) { try await $0.askStatus($1.job) }
        status.maxWait = { $0.isGivenUp ? Job.retention : questionInterval }
        var parked = kind(.parkedDocument, weight: 1, maxAtOnce: 1) { try await $0.takeParked($1.job) }
        parked.maxWait = { _ in parkedInterval }
        return [consumption, history, customer, status, parked]
    }

    /// An error in the form that a job runner expects.
    private func failure(_ error: any Error, of job: Job) -> any Error {
        var failure: JobFailure
        switch error {
        case let error as AppStoreAPIError where error.code == .cancelled: return CancellationError()
        case let error as AppStoreAPIError: failure = self.failure(error)
        case is VerificationError, is UnusablePage: failure = JobFailure("\(error)")
        default: return error
        }
        if job.isGivenUp { failure.payload = job.reopened.payload }
        return failure
    }

    /// The failure of a job after an App Store error. The error names a time by the client's clock, but the jobs may
    /// follow the clock of a simulated App Store. The failure therefore has a pause instead of this time.
    ///
    /// - Parameter latest: The latest time of the next attempt, by the clock of the jobs; `nil` without a limit.
    func failure(_ error: AppStoreAPIError, latest: Timestamp? = nil) -> JobFailure {
        JobFailure("\(error)", extent: error.extent, pause: client.pause(after: error), latest: latest)
    }

    /// Adds the recurring job that reads the notification history, if it is missing. Makes this job and all parked
    /// documents due, because a new setting or version may let jobs succeed that failed before the restart. Call this
    /// method once before the runner begins.
    ///
    /// - Throws: `LedgerStorageError`.
    public func start() async throws {
        let id = Job.ID(.notificationHistory, "", in: scope)
        try await ledger.add(Job(id, dueAt: now()), at: now())
        if let job = try await ledger.job(id) { try await makeDue(job) }
        var cursor: ScanCursor?
        repeat {
            let page = try await ledger.jobs(.parkedDocument, in: scope, after: cursor)
            for job in page.items { try await makeDue(job) }
            cursor = page.next
        } while cursor != nil
    }

    /// Makes a job due, unless it is due soon or leased by a worker.
    private func makeDue(_ job: Job) async throws {
        guard job.dueAt > now().advanced(by: Job.lease) else { return }
        try await ledger.replace(job, with: job.next(at: now(), job.failure), at: now())
    }
}

extension AppStoreAPIError {
    /// The jobs that would fail like the failed job, among the jobs of its app and environment.
    fileprivate var extent: JobFailure.Extent {
        switch code {
        case .credentials, .rateLimited: .all
        // These errors may be about this job only: Apple's server may fail for a single question, and a single answer
        // may be lost.
        case .unavailable, .unreachable, .timedOut, .malformedAnswer: .perhapsAll
        default: .job
        }
    }
}

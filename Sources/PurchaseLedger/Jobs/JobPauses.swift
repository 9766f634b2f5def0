// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The pauses of a ``JobRunner``, at most one per app and environment. During a pause, no job of the app and
/// environment begins, because earlier failures may concern all these jobs.
///
/// At the end of a pause a single job is tried, the probe. If the probe is answered, the pause is over; if it fails, a
/// new pause begins. A first failure that may be the job's own begins no pause: the next job is the probe. A probe that
/// asks no server proves nothing, so the next job becomes the probe.
struct JobPauses {
    /// The pause of an app and environment.
    private struct Pause {
        /// The number of consecutive failures.
        var failures: Int
        /// The time from which the next probe may begin.
        var end: Timestamp
        /// The job whose failure began the pause, or the latest probe.
        var job: Job.ID
        /// The time until which the probe counts as running; `nil` without a running probe.
        var probeEnd: Timestamp?
    }

    private var pauses: [LedgerScope: Pause] = [:]

    /// The first pause. Its length doubles with each failed probe.
    static let first = Duration.seconds(15)
    /// The longest pause. One question a minute is no burden for the App Store, and after an outage the jobs continue
    /// within a minute.
    static let longest = Duration.seconds(60)

    /// Whether a job of an app and environment may begin.
    func admits(_ scope: LedgerScope, at now: Timestamp) -> Bool {
        guard let pause = pauses[scope] else { return true }
        // An end that is further ahead than its maximum was noted before the clock was set back, and is ignored.
        if let end = pause.probeEnd, now < end, end <= now.advanced(by: Job.lease) { return false }
        return pause.end <= now || now.advanced(by: Self.longest) < pause.end
    }

    /// Notes the beginning of a job after ``admits(_:at:)`` returned true.
    mutating func begin(_ job: Job.ID, at now: Timestamp) {
        pauses[job.scope]?.job = job
        pauses[job.scope]?.probeEnd = now.advanced(by: Job.lease)
    }

    /// The kind of the job that failed last; `nil` without a pause. If jobs of a different kind are due, the next probe
    /// is of such a kind, so that a job with permanent failures does not block the other jobs.
    func failedKind(_ scope: LedgerScope) -> Job.Kind? { pauses[scope]?.job.kind }

    /// Notes the end of a job that did not fail, or whose failure concerns no other job.
    ///
    /// - Parameter isAnswered: Whether the job got an answer. Also false if the job asked no server, or was interrupted
    ///   because this process stops.
    mutating func end(_ job: Job.ID, isAnswered: Bool) {
        guard let pause = pauses[job.scope] else { return }
        if isAnswered, isProbe(job) || pause.failures == 0 { return pauses[job.scope] = nil }
        if isProbe(job) { pauses[job.scope]?.probeEnd = nil }
    }

    /// Notes a failure that may concern other jobs.
    ///
    /// - Returns: The end of the pause; `nil` if no pause begins.
    mutating func fail(_ job: Job.ID, _ failure: JobFailure, at now: Timestamp) -> Timestamp? {
        guard let pause = pauses[job.scope] else {
            let count = failure.extent == .all ? 1 : 0
            return begin(job, failures: count, failure.pause, at: now)
        }
        // A job that began before the pause proves nothing new.
        guard isProbe(job) || pause.failures == 0 && pause.job != job else { return pause.end }
        return begin(job, failures: pause.failures + 1, failure.pause, at: now)
    }

    private mutating func begin(
        _ job: Job.ID, failures: Int, _ named: Duration?, at now: Timestamp
    ) -> Timestamp? {
        guard failures > 0 else {
            pauses[job.scope] = Pause(failures: 0, end: now, job: job)
            return nil
        }
        let usual = Self.first * (1 << min(failures - 1, 8))
        let end = now.advanced(by: min(Self.longest, max(named ?? .zero, usual)))
        pauses[job.scope] = Pause(failures: failures, end: end, job: job)
        return end
    }

    private func isProbe(_ job: Job.ID) -> Bool {
        pauses[job.scope].map { $0.probeEnd != nil && $0.job == job } ?? false
    }
}

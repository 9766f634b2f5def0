// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreTrust
public import PurchaseLedger

// Reads the whole history of a customer (all transactions) for a backend: at once if the history is short, otherwise as
// a job.

/// The outcome of a question about a customer's history.
public enum HistoryOutcome: Sendable {
    /// The ledger has the whole history.
    case complete(HistoryReport)
    /// A job reads the rest. If the App Store did not answer, the job's `failure` has the reason.
    case later(Job)
}

extension Reconciler {
    /// Reads the whole history of a customer. If the time does not suffice, a job reads the rest.
    ///
    /// - Parameter limit: The time limit. Requests begin in its first half, and each may take as long as the second
    ///   half.
    /// - Throws: `AppStoreAPIError` or ``HistoryQuestionError`` if the App Store refuses the question; no job repeats
    ///   the question in this case. `LedgerStorageError`.
    public func takeHistory(_ question: HistoryQuestion, within limit: Duration) async throws -> HistoryOutcome {
        let id = Job.ID(.customerHistory, question.order ?? question.transactions.first ?? "", in: scope)
        let end = now().advanced(by: limit / 2)
        let payload = try JSONWriter.bytes(encoding: question)
        var job = Job(id, dueAt: now().advanced(by: Job.lease), attempts: 1, payload: payload)
        guard try await isNew(job) else { return .later(try await ledger.job(id) ?? job) }
        var reading = HistoryReading(question, by: self, timeout: limit / 2)
        do {
            while try await advance(&reading, &job) {
                guard now() >= end else { continue }
                try await reading.record()
                try await store(reading, &job)
                return try await postpone(job, job.next(at: now(), nil))
            }
        } catch let error as AppStoreAPIError
            where error.isRetryable || error.code == .endlessPages || error.code == .cancelled
        {
            return try await postpone(job, retry(job, "\(error)", notBefore: client.pause(after: error)))
        } catch let error as VerificationError {
            return try await postpone(job, retry(job, "\(error)"))
        } catch is LeaseLost {
            return .later(job)
        } catch let error where error is AppStoreAPIError || error is HistoryQuestionError {
            try await ledger.finish(job, at: now())
            throw error
        }
        try await ledger.finish(job, at: now())
        return .complete(reading.report)
    }

    /// Stores a job and returns true, unless an active job for the same question exists, which then continues. A job
    /// that was given up (see ``Job/isGivenUp``) is replaced.
    private func isNew(_ job: Job) async throws -> Bool {
        if let old = try await ledger.job(job.id), old.isGivenUp {
            return try await ledger.replace(old, with: job, at: now())
        }
        try await ledger.add(job, at: now())
        return try await ledger.job(job.id) == job
    }

    private func retry(_ job: Job, _ failure: String, notBefore pause: Duration? = nil) -> Job {
        var next = job.reopened.retry(at: now(), because: failure, within: .seconds(3600))
        if let pause { next.dueAt = max(next.dueAt, now().advanced(by: pause)) }
        return next
    }

    private func postpone(_ job: Job, _ next: Job) async throws -> HistoryOutcome {
        try await ledger.replace(job, with: next, at: now())
        return .later(next)
    }

    /// Does a job that reads a customer's history. If the App Store refuses the question, the job is given up.
    func goOnWithHistory(_ lease: LeasedJob) async throws -> JobOutcome {
        var job = lease.job
        defer { lease.job = job }
        guard !job.isForgotten(at: now()), let question: HistoryQuestion = job.decoded() else { return .done }
        var reading = HistoryReading(question, by: self)
        do {
            while try await advance(&reading, &job) {}
        } catch let error where Self.isFinal(error, after: job.attempts) {
            return .later(job.givenUp(at: now(), because: "\(error)"))
        }
        return .done
    }

    /// Makes the next request of a reading, and stores the progress. Returns false if nothing is left to read.
    private func advance(_ reading: inout HistoryReading, _ job: inout Job) async throws -> Bool {
        do {
            guard try await reading.step() else { return false }
        } catch {
            try await store(reading, &job)
            throw error
        }
        try await store(reading, &job)
        return true
    }

    private func store(_ reading: HistoryReading, _ job: inout Job) async throws {
        try await ledger.prolong(&job, payload: try JSONWriter.bytes(encoding: reading.question), at: now())
    }

    /// The number of attempts, about a day of them, after which a contradiction is believed: Apple may have lost the
    /// customer in the middle of the reading. Otherwise such a job would ask every hour for ever.
    static let believedAttempts = 30

    /// Whether a repeated question would fail in the same way.
    private static func isFinal(_ error: any Error, after attempts: Int) -> Bool {
        guard let error = error as? AppStoreAPIError else { return error is HistoryQuestionError }
        if error.code == .contradiction { return attempts >= believedAttempts }
        return !error.isRetryable && error.code != .cancelled && error.code != .credentials
    }
}

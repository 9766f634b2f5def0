// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreTrust
public import PurchaseLedger

// The whole history of one customer, asked for by a backend: at once if it is short, otherwise as a job.

/// What became of a question about a customer's history.
public enum HistoryOutcome: Sendable {
    /// All of it is in the ledger.
    case complete(HistoryReport)
    /// A job reads the rest. Its `failure` says why it was not read at once, if the App Store did not answer.
    case later(Job)
}

extension Reconciler {
    /// Reads the whole history of a customer. What is not read in time is read later, as a job.
    ///
    /// - Parameter limit: The longest time. A request begins in its first half, and may take as long as the other half.
    /// - Throws: `AppStoreAPIError` or ``HistoryQuestionError`` if the App Store refuses the question, so that it is
    ///   not asked again; `LedgerStorageError`.
    public func takeHistory(_ question: HistoryQuestion, within limit: Duration) async throws -> HistoryOutcome {
        let id = Job.ID(.customerHistory, question.order ?? question.transactions.first ?? "", in: scope)
        let end = now().advanced(by: limit / 2)
        let payload = try JSONWriter.bytes(encoding: question)
        var job = Job(id, dueAt: now().advanced(by: Job.lease), attempts: 1, payload: payload)
        guard try await isNew(job) else { return .later(try await ledger.job(id) ?? job) }
        var reading = HistoryReading(question, by: self, timeout: limit / 2)
        do {
            while try await advance(&reading, &job) {
                if now() >= end { return try await postpone(job, job.next(at: now(), nil)) }
            }
        } catch let error as AppStoreAPIError where error.isRetryable {
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

    /// Stores a job, unless the same question is a job already, which goes on where it is. One that was given up does
    /// not go on.
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

    /// Does a job to read a customer's history. If the App Store refuses the question, the job is given up.
    func goOnWithHistory(_ lease: LeasedJob) async throws -> JobOutcome {
        var job = lease.job
        defer { lease.job = job }
        guard !job.isForgotten(at: now()), let question: HistoryQuestion = job.decoded() else { return .done }
        var reading = HistoryReading(question, by: self)
        do {
            while try await advance(&reading, &job) {}
        } catch let error where Self.isFinal(error) {
            return .later(job.givenUp(at: now(), because: "\(error)"))
        }
        return .done
    }

    /// Makes the next request of a reading, and stores how far it is.
    private func advance(_ reading: inout HistoryReading, _ job: inout Job) async throws -> Bool {
        guard try await reading.step() else { return false }
        try await ledger.prolong(&job, payload: try JSONWriter.bytes(encoding: reading.question), at: now())
        return true
    }

    /// Whether the same question would get the same answer.
    private static func isFinal(_ error: any Error) -> Bool {
        guard let error = error as? AppStoreAPIError else { return error is HistoryQuestionError }
        return !error.isRetryable && error.code != .cancelled && error.code != .credentials
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreTrust
import PurchaseLedger

// Which job is done next, and what becomes of it.

extension Reconciler {
    /// In the order in which they are done. Apple waits for consumption information. The history is next: it may answer
    /// what the others would ask.
    private static let kinds: [Job.Kind] = [
        .consumption, .notificationHistory, .customerHistory, .subscriptionStatus, .parkedDocument,
    ]

    /// Stores the jobs that recur, unless they are stored. Call it once before ``workOnce()``.
    ///
    /// - Throws: `LedgerStorageError`.
    public func start() async throws {
        let id = Job.ID(.notificationHistory, "", in: scope)
        try await ledger.add(Job(id, dueAt: now()), at: now())
        // One that another worker has leased is due before the lease ends.
        guard let job = try await ledger.job(id), job.dueAt > now().advanced(by: Self.lease) else { return }
        try await ledger.replace(job, with: job.next(at: now(), job.failure), at: now())
    }

    /// Does one job that is due, if there is one. Several workers may call this at once.
    ///
    /// If the App Store does not answer, the job is postponed, with the reason in `Job.failure`.
    ///
    /// - Returns: False if no job is due.
    /// - Throws: `LedgerStorageError`. The job is done again after its lease has ended.
    public func workOnce() async throws -> Bool {
        for kind in Self.kinds {
            let end = now().advanced(by: Self.lease)
            guard let job = try await ledger.lease(kind, in: scope, until: end, at: now()).first else { continue }
            try await perform(job)
            return true
        }
        return false
    }

    private func perform(_ leased: Job) async throws {
        var job = leased
        let outcome: JobOutcome
        do {
            outcome = try await result(of: &job)
        } catch let error as AppStoreAPIError where error.code == .cancelled {
            // The server stops. The next worker need not wait.
            outcome = .later(job.next(at: now(), leased.failure))
        } catch let error as AppStoreAPIError {
            outcome = .later(retry(job, after: error))
        } catch is LeaseLost {
            return
        } catch let error where error is VerificationError || error is UnusablePage {
            outcome = .later(retry(job, because: "\(error)"))
        }
        switch outcome {
        case .done: try await ledger.finish(job, at: now())
        case .later(let next):
            if next.failure != nil, next.dueAt > now() { onFailure(next) }
            try await ledger.replace(job, with: next, at: now())
        }
    }

    /// Does a job.
    ///
    /// - Parameter job: As it is leased: changes if the lease is prolonged.
    private func result(of job: inout Job) async throws -> JobOutcome {
        switch job.id.kind {
        case .consumption: try await answerConsumption(job)
        case .notificationHistory: try await readHistory(&job)
        case .customerHistory: try await goOnWithHistory(&job)
        case .subscriptionStatus: try await askStatus(job)
        default: try await takeParked(job)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization

/// Finds out whether the ledger can be written, by a small write. The ledger does not count as ready soon after a
/// commit failed for a reason that lasts, since on a disk that is nearly full small writes still succeed.
///
/// An answer is cached for a second, so that frequent checks cost nothing.
final class Readiness: Sendable {
    /// How long an answer is cached.
    private static let validity = Duration.seconds(1)

    /// How long a failed commit counts if no other succeeds. After that the server must receive requests again, since
    /// only they show whether commits succeed.
    private static let failureLifetime = Duration.seconds(30)

    private struct State {
        var answer: (at: Timestamp, until: Timestamp, error: LedgerStorageError?)?
        var trial: Task<LedgerStorageError?, Never>?
        /// The error of the last commit, if it failed.
        var failure: LedgerStorageError?
        /// When the failure no longer counts. The next check sets it, since a commit does not report its time.
        var failureEnds: Timestamp?
    }

    private let ledger: Ledger
    private let state = Mutex(State())

    init(_ ledger: Ledger) {
        self.ledger = ledger
    }

    /// Why the ledger is not ready; `nil` if it is.
    func fault(at now: Timestamp) async -> LedgerStorageError? {
        let last = state.withLock { $0.answer }
        if let last, now >= last.at, now < last.until { return last.error }
        let failure = recentFailure(at: now)
        // If a part of the ledger is away, commits about it fail, and say nothing about the others.
        let fault = await trial() ?? (ledger.condition.isDegraded ? nil : failure)
        state.withLock { $0.answer = (now, now.advanced(by: Self.validity), fault) }
        return fault
    }

    /// Tries to write. Concurrent checks share one trial, so that a slow storage gets no additional load.
    private func trial() async -> LedgerStorageError? {
        let task = state.withLock { state in
            let task = state.trial ?? Task { await tryToWrite() }
            state.trial = task
            return task
        }
        let fault = await task.value
        state.withLock { if $0.trial == task { $0.trial = nil } }
        return fault
    }

    private func recentFailure(at now: Timestamp) -> LedgerStorageError? {
        state.withLock { state in
            guard state.failure != nil else { return nil }
            let end = state.failureEnds ?? now.advanced(by: Self.failureLifetime)
            state.failureEnds = end
            // An end that lies too far ahead is from before the clock was set back.
            if now >= end || now.advanced(by: Self.failureLifetime) < end { state.failure = nil }
            return state.failure
        }
    }

    private func tryToWrite() async -> LedgerStorageError? {
        do {
            try await ledger.proveWritable()
            return nil
        } catch {
            return error as? LedgerStorageError ?? LedgerStorageError(.unavailable, "\(error)")
        }
    }

    /// Records the outcome of a commit: its error, or `nil` if it succeeded.
    func committed(_ failure: LedgerStorageError?) {
        // What passes by itself, such as a lock that others hold on a record, says nothing about other commits.
        if failure?.isPassing == true { return }
        state.withLock { state in
            state.failure = failure
            state.failureEnds = nil
        }
    }
}

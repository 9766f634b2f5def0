// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization

/// Checks with a small write whether the ledger accepts writes. This check alone is not enough, because small writes
/// still succeed on a nearly full disk. Therefore the ledger also counts as not ready for some time after a commit has
/// failed for a lasting reason.
///
/// An answer is cached for a second, so frequent checks add almost no load.
final class Readiness: Sendable {
    /// The lifetime of a cached answer.
    private static let validity = Duration.seconds(1)

    /// The time for which a failed commit counts if no later commit succeeds. After this time the server counts as
    /// ready and receives requests again, since only the commits of requests show whether commits succeed.
    private static let failureLifetime = Duration.seconds(30)

    private struct State {
        var answer: (at: Timestamp, until: Timestamp, error: LedgerStorageError?)?
        var trial: Task<LedgerStorageError?, Never>?
        /// The error of the last commit that succeeded or failed for a lasting reason; `nil` if it succeeded, or if its
        /// failure no longer counts.
        var failure: LedgerStorageError?
        /// The time at which the failure no longer counts. The next check sets this time, since a commit does not
        /// report its own time.
        var failureEnds: Timestamp?
    }

    private let ledger: Ledger
    private let state = Mutex(State())

    init(_ ledger: Ledger) {
        self.ledger = ledger
    }

    /// The reason why the ledger is not ready; `nil` if the ledger is ready.
    func fault(at now: Timestamp) async -> LedgerStorageError? {
        let last = state.withLock { $0.answer }
        if let last, now >= last.at, now < last.until { return last.error }
        let failure = recentFailure(at: now)
        // If a part of the ledger is unavailable, commits to that part fail. Such a failure says nothing about the
        // other parts, so the failed commit does not count.
        let fault = await trial() ?? (ledger.condition.isDegraded ? nil : failure)
        state.withLock { $0.answer = (now, now.advanced(by: Self.validity), fault) }
        return fault
    }

    /// Tries to write. Concurrent checks share a single trial, so that a slow storage gets no additional load.
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
            // An end too far in the future was computed before the clock was set back.
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
        // A temporary error, such as a lock on a record, says nothing about other commits.
        if failure?.isPassing == true { return }
        state.withLock { state in
            state.failure = failure
            state.failureEnds = nil
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization

/// Whether the ledger can be written: found out by writing a little, and not believed soon after something larger could not be
/// written, as on a disk that is nearly full.
///
/// Whoever asks within a second of another gets the other's answer, so that asking often costs nothing.
final class Readiness: Sendable {
    /// For how long an answer holds.
    private static let validity = Duration.seconds(1)

    /// For how long a failed write is remembered where no other succeeds meanwhile. Then requests must come again, so that it
    /// comes to light whether they can be served.
    private static let memory = Duration.seconds(30)

    private struct State {
        var answer: (at: Timestamp, until: Timestamp, error: LedgerStorageError?)?
        var trial: Task<LedgerStorageError?, Never>?
        /// The last write, if it failed.
        var failure: LedgerStorageError?
        /// Until when it is held against the storage; `nil` until somebody asks, who has a clock.
        var failureEnds: Timestamp?
    }

    private let ledger: Ledger
    private let state = Mutex(State())

    init(_ ledger: Ledger) {
        self.ledger = ledger
    }

    /// What is wrong; `nil` where nothing is.
    func fault(at now: Timestamp) async -> LedgerStorageError? {
        let last = state.withLock { $0.answer }
        if let last, now >= last.at, now < last.until { return last.error }
        let failure = remembered(at: now)
        let fault = await trial() ?? failure
        state.withLock { $0.answer = (now, now.advanced(by: Self.validity), fault) }
        return fault
    }

    /// Tries to write. Who asks meanwhile waits for the same trial, so that a storage that is slow is not asked more.
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

    private func remembered(at now: Timestamp) -> LedgerStorageError? {
        state.withLock { state in
            guard state.failure != nil else { return nil }
            let end = state.failureEnds ?? now.advanced(by: Self.memory)
            state.failureEnds = end
            if now >= end { state.failure = nil }
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

    /// Takes in what became of a commit: `nil` if it succeeded.
    func committed(_ failure: LedgerStorageError?) {
        state.withLock { state in
            state.failure = failure
            state.failureEnds = nil
        }
    }
}

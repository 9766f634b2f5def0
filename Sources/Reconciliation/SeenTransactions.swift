// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization

/// The transactions that the histories of a backfill had, so that none of them is asked about or stored twice: the App
/// Store signs each answer anew.
///
/// A history that several workers begin is read on by the first of them alone. The others wait for it.
final class SeenTransactions: Sendable {
    /// The number of the reading of a history.
    typealias Reading = Int

    /// The most transactions that are remembered, in some 70 MB. If there are more, it begins anew, which
    /// costs a request for each that is named later.
    private static let capacity = 500_000

    private struct State {
        /// By transaction id: the reading that had it, and what its document says.
        var transactions: [String: (reading: Reading, wording: Wording?)] = [:]
        var last: Reading = 0
        /// The readings that have not ended, with the transactions that they had.
        var running: [Reading: [String]] = [:]
        /// Those who wait for the end of a reading.
        var waiting: [Reading: [CheckedContinuation<Void, Never>]] = [:]
    }

    private let state = Mutex(State())

    /// Begins a reading, which must be ended.
    func begin() -> Reading {
        state.withLock { state in
            state.last += 1
            state.running[state.last] = []
            return state.last
        }
    }

    /// Ends a reading.
    ///
    /// - Parameters:
    ///   - isComplete: Whether the whole history was read. If not, its transactions count as not seen.
    ///   - other: The reading of the same history that goes on with its transactions.
    func end(_ reading: Reading, isComplete: Bool, for other: Reading? = nil) {
        let waiting = state.withLock { state in
            for id in state.running.removeValue(forKey: reading) ?? [] where state.transactions[id]?.reading == reading
            {
                if let other, state.running[other]?.append(id) != nil {
                    state.transactions[id]?.reading = other
                } else if !isComplete {
                    state.transactions[id] = nil
                }
            }
            return state.waiting.removeValue(forKey: reading) ?? []
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Waits until a reading has ended.
    func waitForEnd(of reading: Reading) async {
        await withCheckedContinuation { continuation in
            let isRunning = state.withLock { state in
                guard state.running[reading] != nil else { return false }
                state.waiting[reading, default: []].append(continuation)
                return true
            }
            if !isRunning { continuation.resume() }
        }
    }

    /// Whether a history had a transaction.
    func contains(_ id: String) -> Bool { state.withLock { $0.transactions[id] != nil } }

    /// Whether a history had a transaction with a document that says the same.
    func contains(_ document: Evidence) -> Bool {
        let wording = document.wording
        return state.withLock { state in
            document.statements.allSatisfy { statement in
                state.transactions[statement.transactionId].map { $0.wording == wording } ?? false
            }
        }
    }

    /// Notes the transactions of a document as those of a reading, before they are recorded.
    ///
    /// - Returns: False if a history had them with a document that says the same, which need not be recorded again.
    func claim(_ document: Evidence, by reading: Reading) -> Bool {
        guard !contains(document) else { return false }
        let wording = document.wording
        state.withLock { state in
            if state.transactions.count >= Self.capacity { state.transactions.removeAll() }
            for id in document.statements.map(\.transactionId) {
                state.transactions[id] = (reading, wording)
                state.running[reading]?.append(id)
            }
        }
        return true
    }

    /// Who else has the transactions of a page.
    enum Others: Hashable {
        case none
        /// A reading that has not ended has some of them: it reads the same history.
        case reading(Reading)
        /// Readings that were complete have all of them.
        case complete
    }

    /// Who has the transactions of a page besides a reading.
    func others(with ids: [String], besides reading: Reading) -> Others {
        state.withLock { state in
            let others = ids.map { state.transactions[$0]?.reading ?? reading }
            if let other = others.first(where: { $0 != reading && state.running[$0] != nil }) { return .reading(other) }
            return !ids.isEmpty && others.allSatisfy { $0 != reading } ? .complete : .none
        }
    }
}

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

    fileprivate struct State {
        /// By transaction id: the reading that had it, and what its document says.
        var transactions: [String: (reading: Reading, wording: Wording?)] = [:]
        var last: Reading = 0
        /// The readings that have not ended, with the transactions that they had.
        var running: [Reading: [String]] = [:]
        /// Those who wait for the end of a reading, for the error with which it ends if it does.
        var waiting: [Reading: [CheckedContinuation<(any Error)?, Never>]] = [:]
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
    ///   - error: Why the history could not be read to its end; then its transactions count as not seen. `nil` if it
    ///     was.
    ///   - other: The reading of the same history that goes on with its transactions. If it has ended meanwhile, they
    ///     count as not seen.
    func end(_ reading: Reading, _ error: (any Error)? = nil, for other: Reading? = nil) {
        let waiting = state.withLock { state in
            for id in state.running.removeValue(forKey: reading) ?? [] where state.transactions[id]?.reading == reading
            {
                if let other, state.running[other]?.append(id) != nil {
                    state.transactions[id]?.reading = other
                } else if error != nil || other != nil {
                    state.transactions[id] = nil
                }
            }
            return state.waiting.removeValue(forKey: reading) ?? []
        }
        for continuation in waiting { continuation.resume(returning: error) }
    }

    /// Waits until a reading has ended.
    ///
    /// - Throws: What it ended with: the same question would end so too.
    func waitForEnd(of reading: Reading) async throws {
        let error = await withCheckedContinuation { continuation in
            let isRunning = state.withLock { state in
                guard state.running[reading] != nil else { return false }
                state.waiting[reading, default: []].append(continuation)
                return true
            }
            if !isRunning { continuation.resume(returning: nil) }
        }
        if let error { throw error }
    }

    /// Whether a history had a transaction with a document that says the same.
    func contains(_ document: Evidence) -> Bool {
        let wording = document.wording
        return state.withLock { $0.contains(document, wording) }
    }

    /// Notes the transactions of a page as those of a reading, before they are recorded.
    ///
    /// - Returns: The documents to record: those that say what no document of another reading said.
    func claim(_ page: [Evidence], by reading: Reading) -> [Evidence] {
        let page = page.map { (document: $0, wording: $0.wording) }
        return state.withLock { state in
            if state.transactions.count >= Self.capacity { state.transactions.removeAll() }
            let new = page.filter { !state.contains($0.document, $0.wording) }
            for (document, wording) in new {
                for id in document.statements.map(\.transactionId) {
                    state.transactions[id] = (reading, wording)
                    state.running[reading]?.append(id)
                }
            }
            return new.map(\.document)
        }
    }

    /// Who else has some transactions.
    enum Others: Hashable {
        case none
        /// A reading that has not ended has some of them: it reads the same history.
        case reading(Reading)
        /// Readings that were complete have all of them.
        case complete
    }

    /// Who has some transactions, besides a reading.
    func others(with ids: [String], besides reading: Reading? = nil) -> Others {
        state.withLock { state in
            let others = ids.map { id in state.transactions[id].map(\.reading).flatMap { $0 == reading ? nil : $0 } }
            if let running = others.compactMap(\.self).first(where: { state.running[$0] != nil }) {
                return .reading(running)
            }
            return ids.isEmpty || others.contains(nil) ? .none : .complete
        }
    }
}

extension SeenTransactions.State {
    fileprivate func contains(_ document: Evidence, _ wording: Wording?) -> Bool {
        document.statements.allSatisfy { statement in
            transactions[statement.transactionId].map { $0.wording == wording } ?? false
        }
    }
}

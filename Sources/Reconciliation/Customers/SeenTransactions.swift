// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization

/// The transactions in all histories of a backfill. A transaction in this set is not requested again. If it appears
/// again in an answer, it is stored again only if its content has changed. A new signature alone is no change, because
/// the App Store signs each answer anew.
///
/// If several workers begin the same history, only the first worker reads on. The other workers wait.
final class SeenTransactions: Sendable {
    /// The maximum number of transactions in memory, which take some 70 MB. At this number all transactions are
    /// forgotten. Each forgotten transaction then costs a request if a later line of the backfill's list names it.
    private static let capacity = 500_000

    fileprivate struct State {
        /// By transaction id: the reading that last claimed the transaction, and the wording (``Wording``: the content
        /// without the signing date) of the document that it claimed.
        var transactions: [String: (reading: Reading, wording: Wording?)] = [:]
        /// The readings that have not ended, with their transactions.
        var running: [Reading: [String]] = [:]
    }

    private let state = Mutex(State())

    /// Begins a reading. The caller must end the reading.
    func begin() -> Reading {
        let reading = Reading()
        state.withLock { $0.running[reading] = [] }
        return reading
    }

    /// Ends a reading.
    ///
    /// - Parameters:
    ///   - error: The error that ended the reading early. The reading's transactions then count as unseen. `nil` after
    ///     a complete reading.
    ///   - other: The reading of the same history that takes over the transactions. If the other reading has ended
    ///     meanwhile, the transactions count as unseen.
    func end(_ reading: Reading, _ error: (any Error)? = nil, for other: Reading? = nil) {
        state.withLock { state in
            for id in state.running.removeValue(forKey: reading) ?? [] where state.transactions[id]?.reading == reading
            {
                if let other, state.running[other]?.append(id) != nil {
                    state.transactions[id]?.reading = other
                } else if error != nil || other != nil {
                    state.transactions[id] = nil
                }
            }
        }
        reading.end(error)
    }

    /// Whether all transactions of a document were seen in documents with the same wording.
    func contains(_ document: Evidence) -> Bool {
        let wording = document.wording
        return state.withLock { $0.contains(document, wording) }
    }

    /// Notes the transactions of a page for a reading, before the page is recorded.
    ///
    /// - Returns: The documents to record. Documents that were already seen with the same wording are left out.
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

    /// The result of ``others(with:besides:)``: the readings that have seen given transactions.
    enum Others: Hashable {
        case none
        /// A running reading has seen some of the transactions, so it reads the same history.
        case reading(Reading)
        /// Complete readings have seen all transactions.
        case complete
    }

    /// The readings that have seen the transactions, apart from a given reading.
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

/// A reading of a history. It keeps the error with which it ended, so that tasks that wait for it learn of the error
/// even if they begin to wait later.
final class Reading: Sendable {
    private let continuation: AsyncThrowingStream<Never, any Error>.Continuation
    private let ended: Task<Void, any Error>

    fileprivate init() {
        let (stream, continuation) = AsyncThrowingStream.makeStream(of: Never.self)
        self.continuation = continuation
        ended = Task { for try await _ in stream {} }
    }

    deinit { continuation.finish() }

    fileprivate func end(_ error: (any Error)?) { continuation.finish(throwing: error) }

    /// Waits until the reading has ended.
    ///
    /// - Throws: The error of the reading, because the same question would fail in the same way.
    func waitForEnd() async throws { try await ended.value }
}

extension Reading: Hashable {
    static func == (first: Reading, second: Reading) -> Bool { first === second }

    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

extension SeenTransactions.State {
    fileprivate func contains(_ document: Evidence, _ wording: Wording?) -> Bool {
        document.statements.allSatisfy { statement in
            transactions[statement.transactionId].map { $0.wording == wording } ?? false
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import Foundation
import GRDB
import PurchaseLedger
import Synchronization

/// Writes that wait for the writer. While one group is on its way to the disk the next gathers, so that the more there is
/// to write, the more share one flush. A group that is smaller than the last waits a moment for others; a write that was alone
/// waits for nobody.
final class GroupCommit: Sendable {
    /// One caller's work.
    struct Write: Sendable {
        /// Does it, and does it again where another of its group fails. Returns what tells the caller of the success, once that
        /// is durable.
        let work: @Sendable (any LedgerWriter) throws -> @Sendable () -> Void
        let fail: @Sendable (any Error) -> Void
    }

    /// How many are committed at once. The first of them waits for the last: some 50 ms, when the disk is quick. More gain
    /// nothing, as by then the flush is a small part.
    private static let largestGroup = 200

    /// How long a group waits that is smaller than the last, in seconds: about a flush, so that there are half as many of them
    /// under load, and nobody notices.
    private static let moment = 0.0006

    private struct State {
        var waiting: [Write] = []
        var isWriting = false
        /// How many the last group had.
        var lastCount = 1
        var commits = 0
        /// By works that were committed.
        var met = LedgerTables.Met()
        /// Set if the last commit went to a file that no path leads to.
        var loss: LedgerStorageError?
    }

    private let state = Mutex(State())
    private let proveKept: @Sendable () throws -> Void

    /// - Parameter proveKept: Throws if what was committed is not in the ledger's file. It is run after each commit, before any
    ///   caller learns of it.
    init(proveKept: @escaping @Sendable () throws -> Void) {
        self.proveKept = proveKept
    }

    var loss: LedgerStorageError? { state.withLock { $0.loss } }

    /// How many transactions were committed.
    var commits: Int { state.withLock { $0.commits } }

    /// - Returns: Whether nobody is writing, so that the caller has to see that ``writeNext(to:)`` runs.
    func add(_ write: Write) -> Bool {
        state.withLock { state in
            state.waiting.append(write)
            defer { state.isWriting = true }
            return !state.isWriting
        }
    }

    /// Commits the writes that wait now.
    ///
    /// - Returns: Whether more have gathered meanwhile, so that this has to run again.
    func writeNext(to connection: Database) -> Bool {
        if state.withLock({ $0.waiting.count < $0.lastCount }) { Thread.sleep(forTimeInterval: Self.moment) }
        let group = state.withLock { state in
            state.lastCount = min(Self.largestGroup, state.waiting.count)
            defer { state.waiting.removeFirst(min(Self.largestGroup, state.waiting.count)) }
            return Array(state.waiting.prefix(Self.largestGroup))
        }
        for answer in commit(group, to: connection) { answer() }
        return state.withLock { state in
            state.isWriting = !state.waiting.isEmpty
            return state.isWriting
        }
    }

    /// Returns what tells each caller how it went.
    private func commit(_ group: [Write], to connection: Database) -> [() -> Void] {
        do {
            let transaction = SQLiteTransaction(connection, met: state.withLock { $0.met })
            let answers = try commit(to: connection) {
                do {
                    return try group.map { try perform($0, in: transaction) }
                } catch {
                    throw FailedWork(cause: error)
                }
            }
            state.withLock { $0.met = transaction.tables.met }
            return answers
        } catch let failed as FailedWork where group.count == 1 {
            return group.map { write in { write.fail(SQLiteErrors.translate(failed.cause)) } }
        } catch is FailedWork {
            return commitEach(group, to: connection)
        } catch {
            return Self.fail(group, error)
        }
    }

    /// A work of a group failed, and so far the group with it.
    private struct FailedWork: Error {
        let cause: any Error
    }

    /// Commits a group of which some work fails, each in a savepoint of its own, so that what it wrote is taken back without
    /// the others. A group in which none fails, as nearly all are, does without: for each savepoint SQLite copies every page
    /// that changes.
    private func commitEach(_ group: [Write], to connection: Database) -> [() -> Void] {
        do {
            return try commit(to: connection) { try group.map { try performAlone($0, on: connection) } }
        } catch {
            return Self.fail(group, error)
        }
    }

    private func commit(
        to connection: Database, _ works: () throws -> [() -> Void]
    ) throws -> [() -> Void] {
        var answers: [() -> Void] = []
        try connection.inTransaction(.immediate) {
            answers = try works()
            return .commit
        }
        state.withLock { $0.commits += 1 }
        do {
            try proveKept()
            state.withLock { $0.loss = nil }
        } catch {
            state.withLock { $0.loss = SQLiteErrors.storageError(error) }
            throw error
        }
        return answers
    }

    private static func fail(_ group: [Write], _ error: any Error) -> [() -> Void] {
        let error = SQLiteErrors.storageError(error)
        return group.map { write in { write.fail(error) } }
    }

    private func perform(_ write: Write, in transaction: SQLiteTransaction) throws -> () -> Void {
        transaction.tables.beginWork()
        let answer = try write.work(transaction)
        try transaction.tables.endWork()
        return answer
    }

    /// - Throws: Where SQLite gave up the whole transaction, as it may when the disk is full.
    private func performAlone(_ write: Write, on connection: Database) throws -> () -> Void {
        do {
            var answer: () -> Void = {}
            try connection.inSavepoint {
                // What it meets may be taken back, so that nobody else gets to know.
                answer = try perform(write, in: SQLiteTransaction(connection))
                return .commit
            }
            return answer
        } catch  where connection.isInsideTransaction {
            return { write.fail(SQLiteErrors.translate(error)) }
        }
    }
}

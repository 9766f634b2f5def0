// SPDX-License-Identifier: Apache-2.0

import GRDB
import PurchaseLedger
import Synchronization

/// Writes that wait for the writer. While one group is on its way to the disk the next gathers, so that the more there is
/// to write, the more share one flush, and a write that is alone waits for nobody.
final class GroupCommit: Sendable {
    /// One caller's work.
    struct Write: Sendable {
        /// Does it. Returns what tells the caller of the success, once that is durable.
        let work: @Sendable (any LedgerWriter) throws -> @Sendable () -> Void
        let fail: @Sendable (any Error) -> Void
    }

    /// How many are committed at once. The first of them waits for the last: some 50 ms, when the disk is quick. More gain
    /// nothing, as by then the flush is a small part.
    private static let largestGroup = 200

    private struct State {
        var waiting: [Write] = []
        var isWriting = false
        var commits = 0
    }

    private let state = Mutex(State())

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
        let group = state.withLock { state in
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
        var answers: [() -> Void] = []
        do {
            try connection.inTransaction(.immediate) {
                for write in group { answers.append(try perform(write, on: connection)) }
                return .commit
            }
            state.withLock { $0.commits += 1 }
            return answers
        } catch {
            let error = SQLiteErrors.storageError(error)
            return group.map { write in { write.fail(error) } }
        }
    }

    /// Does one work in a savepoint of its own, so that what it wrote can be taken back without the others.
    ///
    /// - Throws: Where SQLite gave up the whole transaction, as it may when the disk is full.
    private func perform(_ write: Write, on connection: Database) throws -> () -> Void {
        do {
            var answer: @Sendable () -> Void = {}
            try connection.inSavepoint {
                let transaction = SQLiteTransaction(connection)
                answer = try write.work(transaction)
                if let failure = transaction.tables.failure { throw failure }
                return .commit
            }
            return answer
        } catch  where connection.isInsideTransaction {
            return { write.fail(SQLiteErrors.translate(error)) }
        }
    }
}

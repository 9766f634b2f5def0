// SPDX-License-Identifier: Apache-2.0

import Foundation
import GRDB
import PurchaseLedger
import Synchronization

/// Commits writes to the ledger in groups. The writes of a group share a transaction, and so a single flush to the
/// disk.
///
/// The next group gathers during the current commit, so that groups grow with the load. A group smaller than the
/// previous group waits a moment for further writes. After a group of a single write, the next group does not wait.
final class GroupCommit: Sendable {
    /// A caller's write.
    struct Write: Sendable {
        /// Writes, and returns a closure that reports success to the caller once the write is durable. Runs again if
        /// the group is rolled back.
        let body: @Sendable (SQLiteLedgerSession) throws -> @Sendable () -> Void
        let fail: @Sendable (any Error) -> Void
    }

    /// The maximum number of writes in a group. Every write of a group waits until the whole group is committed: some
    /// 50 ms for a full group on a fast disk. Larger groups would gain little, because the flush already takes only a
    /// small part of this time.
    private static let maxGroup = 200

    /// How long, in seconds, a group waits if it is smaller than the previous group: about as long as a flush takes.
    /// Under load, groups grow by this wait, and the number of flushes halves.
    private static let moment = 0.0006

    private struct State {
        var waiting: [Write] = []
        var isWriting = false
        /// The size of the last group.
        var lastCount = 1
        var commits = 0
        /// The row numbers looked up by committed transactions. Those looked up by rolled-back transactions are
        /// discarded.
        var cache = SQLiteLedgerSession.Cache()
        /// Set if the last commit went to a file that was removed or replaced.
        var loss: LedgerStorageError?
    }

    private let state = Mutex(State())
    private let proveKept: @Sendable () throws -> Void

    /// - Parameter proveKept: Throws if the commit is not in the ledger's file. Runs after each commit, before any
    ///   caller gets its answer.
    init(proveKept: @escaping @Sendable () throws -> Void) {
        self.proveKept = proveKept
    }

    var loss: LedgerStorageError? { state.withLock { $0.loss } }

    /// The number of committed transactions.
    var commits: Int { state.withLock { $0.commits } }

    /// The number of writes waiting for the next group.
    var waiting: Int { state.withLock { $0.waiting.count } }

    /// Adds a write to the next group.
    ///
    /// - Returns: Whether the writer was idle. If so, the caller must run ``writeNext(to:)``.
    func add(_ write: Write) -> Bool {
        state.withLock { state in
            state.waiting.append(write)
            defer { state.isWriting = true }
            return !state.isWriting
        }
    }

    /// Commits the waiting writes as one group, at most `maxGroup` writes.
    ///
    /// - Returns: Whether more writes are waiting. If so, the caller must call this method again.
    func writeNext(to connection: Database) -> Bool {
        if state.withLock({ $0.waiting.count < $0.lastCount }) { Thread.sleep(forTimeInterval: Self.moment) }
        let group = state.withLock { state in
            state.lastCount = min(Self.maxGroup, state.waiting.count)
            defer { state.waiting.removeFirst(min(Self.maxGroup, state.waiting.count)) }
            return Array(state.waiting.prefix(Self.maxGroup))
        }
        for answer in commit(group, to: connection) { answer() }
        return state.withLock { state in
            state.isWriting = !state.waiting.isEmpty
            return state.isWriting
        }
    }

    /// Commits a group in one transaction. If the transaction fails, each write is committed in a separate transaction,
    /// so that one bad write does not fail the others.
    ///
    /// - Returns: For each write, a closure that reports the outcome to the write's caller.
    private func commit(_ group: [Write], to connection: Database) -> [() -> Void] {
        do {
            var answers: [() -> Void]?
            let session = SQLiteLedgerSession(connection, state.withLock { $0.cache })
            do {
                try connection.inTransaction(.immediate) {
                    answers = []
                    for write in group { answers?.append(try run(write, in: session)) }
                    return .commit
                }
            } catch  where answers != nil && group.count > 1 {
                return group.flatMap { commit([$0], to: connection) }
            }
            state.withLock { state in
                state.cache = session.cache
                state.commits += 1
            }
            try requireKept()
            return answers ?? []
        } catch {
            let error = SQLiteErrors.storageError(error)
            return group.map { write in { write.fail(error) } }
        }
    }

    /// Runs one write. If the write fails without having changed any row, for example because its decision (the code
    /// that computes the changes) threw an error, only this write fails.
    private func run(_ write: Write, in session: SQLiteLedgerSession) throws -> () -> Void {
        let changes = session.connection.totalChangesCount
        do {
            return try write.body(session)
        } catch  where session.connection.totalChangesCount == changes && session.connection.isInsideTransaction {
            let error = SQLiteErrors.translate(error)
            return { write.fail(error) }
        }
    }

    private func requireKept() throws {
        do {
            try proveKept()
            state.withLock { $0.loss = nil }
        } catch {
            state.withLock { $0.loss = SQLiteErrors.storageError(error) }
            throw error
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import Foundation
import GRDB
import PurchaseLedger
import Synchronization

/// Commits writes in groups, so that they share a flush.
///
/// The next group gathers while one is being written, so that groups grow with the load. A group that is smaller than
/// the last waits a moment for others. A write that was alone does not wait.
final class GroupCommit: Sendable {
    /// What one caller wants to write.
    struct Write: Sendable {
        /// Writes it. Returns what reports success to the caller once that is durable. It runs again if its group is
        /// rolled back.
        let body: @Sendable (SQLiteLedgerSession) throws -> @Sendable () -> Void
        let fail: @Sendable (any Error) -> Void
    }

    /// How many are committed at once. The first of them waits for the last: some 50 ms if the disk is quick. More gain
    /// nothing, since the flush is a small part by then.
    private static let largestGroup = 200

    /// How long a group waits that is smaller than the last, in seconds: about as long as a flush takes, so that there
    /// are half as many flushes under load.
    private static let moment = 0.0006

    private struct State {
        var waiting: [Write] = []
        var isWriting = false
        /// The size of the last group.
        var lastCount = 1
        var commits = 0
        /// What committed transactions looked up: nothing of one that was rolled back.
        var cache = SQLiteLedgerSession.Cache()
        /// Set if the last commit went to a file that no path leads to.
        var loss: LedgerStorageError?
    }

    private let state = Mutex(State())
    private let proveKept: @Sendable () throws -> Void

    /// - Parameter proveKept: Throws if what was committed is not in the ledger's file. It runs after each commit,
    ///   before any caller gets its answer.
    init(proveKept: @escaping @Sendable () throws -> Void) {
        self.proveKept = proveKept
    }

    var loss: LedgerStorageError? { state.withLock { $0.loss } }

    /// How many transactions were committed.
    var commits: Int { state.withLock { $0.commits } }

    /// How many writes wait for the group that is being written.
    var waiting: Int { state.withLock { $0.waiting.count } }

    /// Adds a write to those that wait.
    ///
    /// - Returns: Whether no group is being written, so that the caller has to run ``writeNext(to:)``.
    func add(_ write: Write) -> Bool {
        state.withLock { state in
            state.waiting.append(write)
            defer { state.isWriting = true }
            return !state.isWriting
        }
    }

    /// Commits the writes that wait now.
    ///
    /// - Returns: Whether more have gathered meanwhile, so that the caller has to run this again.
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

    /// Commits a group in one transaction. If that cannot be written, each write gets a transaction of its own, so that
    /// it fails no others.
    ///
    /// - Returns: What reports the outcome to each caller.
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
            state.withLock { ($0.cache, $0.commits) = (session.cache, $0.commits + 1) }
            try requireKept()
            return answers ?? []
        } catch {
            let error = SQLiteErrors.storageError(error)
            return group.map { write in { write.fail(error) } }
        }
    }

    /// Runs one write. If it fails before it wrote anything, as a decision that throws does, it fails alone.
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

// SPDX-License-Identifier: Apache-2.0

import Foundation
import GRDB
import PurchaseLedger
import Synchronization

/// Writes that wait for the writer. While one group is on its way to the disk the next gathers, so that the more there is
/// to write, the more share one flush. A group that is smaller than the last waits a moment for others; a write that was alone
/// waits for nobody.
final class GroupCommit: Sendable {
    /// What one caller wants to write.
    struct Write: Sendable {
        /// Writes it. Returns what tells the caller of the success, once that is durable. It runs again if its group is rolled
        /// back.
        let body: @Sendable (SQLiteLedgerSession) throws -> @Sendable () -> Void
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
        /// What committed transactions looked up.
        var cache = SQLiteLedgerSession.Cache()
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

    /// How many writes wait for the group that is on its way.
    var waiting: Int { state.withLock { $0.waiting.count } }

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

    /// Commits a group in one transaction. If that cannot be written, each write gets a transaction of its own, so that it fails
    /// no others.
    ///
    /// - Returns: What tells each caller how it went.
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
            session.cache.parts.documents = []
            state.withLock { ($0.cache, $0.commits) = (session.cache, $0.commits + 1) }
            try requireKept()
            return answers ?? []
        } catch {
            let error = SQLiteErrors.storageError(error)
            return group.map { write in { write.fail(error) } }
        }
    }

    /// A write that fails before it wrote anything, such as a decision that throws, is the failure of its caller alone.
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

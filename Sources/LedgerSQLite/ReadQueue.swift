// SPDX-License-Identifier: Apache-2.0

import Dispatch
import GRDB
import Synchronization

/// Reads that wait for a thread and its connection. A thread that is done with one goes on with the next on the same connection,
/// so that under load no thread is woken and no connection looked for, which together cost half as much as what is read.
///
/// A read blocks its thread while the disk is slow, which the threads that all tasks share are too few for.
final class ReadQueue: Sendable {
    /// Runs with a connection, or with why there is none.
    typealias Read = @Sendable (Result<Database, any Error>) -> Void

    /// Lends a connection, or throws before it does.
    typealias Lender = @Sendable ((Database) -> Void) throws -> Void

    private struct State {
        var waiting: [Read] = []
        var threads = 0
    }

    /// How many reads share a connection before it is given back: few enough that a ledger which is closed, or opened again,
    /// need not wait for long.
    private static let longestLoan = 64

    private let width: Int
    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "LedgerSQLite.reads", attributes: .concurrent)

    /// - Parameter width: How many run at once.
    init(width: Int) {
        self.width = width
    }

    func add(_ read: @escaping Read, lending lend: @escaping Lender) {
        let needsThread = state.withLock { state in
            state.waiting.append(read)
            guard state.threads < width else { return false }
            state.threads += 1
            return true
        }
        if needsThread { queue.async { self.run(lend) } }
    }

    private func run(_ lend: Lender) {
        var current = next()
        while current != nil {
            do {
                try lend { connection in
                    for _ in 0..<Self.longestLoan {
                        guard let read = current else { return }
                        read(.success(connection))
                        current = next()
                    }
                }
            } catch {
                current?(.failure(error))
                current = next()
            }
        }
    }

    /// The next read; `nil` if none waits, and then the thread has ended.
    private func next() -> Read? {
        state.withLock { state in
            guard !state.waiting.isEmpty else {
                state.threads -= 1
                return nil
            }
            return state.waiting.removeFirst()
        }
    }
}

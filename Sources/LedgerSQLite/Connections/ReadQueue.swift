// SPDX-License-Identifier: Apache-2.0

import Dispatch
import GRDB
import Synchronization

/// Runs reads on a few separate threads, because a read blocks its thread while the disk is slow.
///
/// A thread continues with the next read on the same connection. Under load, most reads therefore neither wake a thread
/// nor look up a connection. These two steps together would cost half as much as the read itself.
final class ReadQueue: Sendable {
    /// A read: runs with a connection, or with the error if no connection could be lent.
    typealias Read = @Sendable (Result<Database, any Error>) -> Void

    /// Calls its argument with a connection, or throws without having called it.
    typealias Lender = @Sendable ((Database) -> Void) throws -> Void

    private struct State {
        var waiting: [Read] = []
        var threads = 0
    }

    /// The maximum number of reads for which a thread keeps its connection: few enough that closing or reopening the
    /// ledger does not take long.
    private static let maxLoan = 64

    private let width: Int
    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "LedgerSQLite.reads", attributes: .concurrent)

    /// - Parameter width: The maximum number of concurrent reads.
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
                    for _ in 0..<Self.maxLoan {
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

    /// The next read; `nil` if no read is waiting. After `nil` the thread no longer counts as running.
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

// SPDX-License-Identifier: Apache-2.0

import Dispatch
import Synchronization

/// Reads that wait for a thread. A thread that is done with one goes on with the next, so that under load none has to be
/// woken for a read that takes less time than waking.
///
/// A read blocks its thread while the disk is slow, which the threads that all tasks share are too few for.
final class ReadQueue: Sendable {
    private struct State {
        var waiting: [@Sendable () -> Void] = []
        var threads = 0
    }

    private let width: Int
    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "LedgerSQLite.reads", attributes: .concurrent)

    /// - Parameter width: How many run at once.
    init(width: Int) {
        self.width = width
    }

    func add(_ read: @escaping @Sendable () -> Void) {
        let needsThread = state.withLock { state in
            state.waiting.append(read)
            guard state.threads < width else { return false }
            state.threads += 1
            return true
        }
        if needsThread { queue.async { self.run() } }
    }

    private func run() {
        while let read = next() { read() }
    }

    private func next() -> (@Sendable () -> Void)? {
        state.withLock { state in
            guard !state.waiting.isEmpty else {
                state.threads -= 1
                return nil
            }
            return state.waiting.removeFirst()
        }
    }
}

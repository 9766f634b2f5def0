// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Wakes the service that does jobs: after a commit of this server that leaves something due, and when a job has ended.
final class DueSignal: Sendable {
    private struct State {
        var isDue = false
        var waiting: AsyncStream<Void>.Continuation?
    }

    private let state = Mutex(State())

    /// The calls of ``noteDue()`` and ``noteRoom()`` from now on; those that come while the reader is busy are one.
    func signals() -> AsyncStream<Void> {
        let (signals, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        state.withLock { $0.waiting = continuation }
        return signals
    }

    /// Something may be due.
    func noteDue() {
        state.withLock { state in
            state.isDue = true
            return state.waiting
        }?.yield()
    }

    /// There is room for another job.
    func noteRoom() { state.withLock { $0.waiting }?.yield() }

    /// Whether something may be due since the last call.
    func takeDue() -> Bool {
        state.withLock { state in
            defer { state.isDue = false }
            return state.isDue
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Wakes ``JobService`` after each job, after each commit of this server that leaves a due record (a job, or a purchase
/// that changes by time alone), and when it is time for a periodic search.
final class DueSignal: Sendable {
    private struct State {
        var isDue = false
        var waiting: AsyncStream<Void>.Continuation?
    }

    private let state = Mutex(State())

    /// A stream with an element per call of ``noteDue()`` or ``noteRoom()`` from now on. Calls while the reader is busy
    /// are merged into a single element.
    func signals() -> AsyncStream<Void> {
        let (signals, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        state.withLock { $0.waiting = continuation }
        return signals
    }

    /// Notes that a record may be due.
    func noteDue() {
        state.withLock { state in
            state.isDue = true
            return state.waiting
        }?.yield()
    }

    /// Notes that a job has ended, so that a further job may begin.
    func noteRoom() { state.withLock { $0.waiting }?.yield() }

    /// Whether a record may have become due since the last call.
    func takeDue() -> Bool {
        state.withLock { state in
            defer { state.isDue = false }
            return state.isDue
        }
    }
}

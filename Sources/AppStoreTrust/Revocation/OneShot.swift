// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// A value that is set once and awaited by any number of tasks.
///
/// A cancelled task stops waiting for a `OneShot`, whereas it would go on waiting for the value of a `Task`.
final class OneShot<Value: Sendable>: Sendable {
    private let state = Mutex<(value: Value?, waiting: Set<AsyncStream<Value>.Continuation>)>((nil, []))

    /// Sets the value and resumes all waiting tasks. Only the first call has an effect.
    func set(_ value: Value) {
        state.withLock { state in
            guard state.value == nil else { return }
            for continuation in state.waiting { continuation.yield(value) }
            state = (value, [])
        }
    }

    /// Waits for the value. Returns `nil` if the waiting task is cancelled first.
    func value() async -> Value? {
        let (stream, continuation) = AsyncStream.makeStream(of: Value.self)
        let known = state.withLock { state in
            if state.value == nil { state.waiting.insert(continuation) }
            return state.value
        }
        if let known { return known }
        defer { state.withLock { _ = $0.waiting.remove(continuation) } }
        // The stream also ends if the task is cancelled.
        return await stream.first { _ in true }
    }
}

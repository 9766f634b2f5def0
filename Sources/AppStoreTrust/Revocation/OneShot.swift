// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// A value that is set once and awaited by any number of tasks.
///
/// A cancelled task stops waiting for a `OneShot`, whereas it would go on waiting for the value of a `Task`.
final class OneShot<Value: Sendable>: Sendable {
    private struct State {
        var value: Value?
        var waiting: [Int: CheckedContinuation<Value?, Never>] = [:]
        var lastTicket = 0
    }

    private let state = Mutex(State())

    /// Sets the value and resumes all waiting tasks. Only the first call has an effect.
    func set(_ value: Value) {
        let waiting = state.withLock { state in
            guard state.value == nil else { return [Int: CheckedContinuation<Value?, Never>]() }
            state.value = value
            defer { state.waiting = [:] }
            return state.waiting
        }
        for continuation in waiting.values { continuation.resume(returning: value) }
    }

    /// Waits for the value. Returns `nil` if the waiting task is cancelled first.
    func value() async -> Value? {
        let ticket = state.withLock { state in
            state.lastTicket &+= 1
            return state.lastTicket
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                wait(ticket, continuation)
                // If the cancellation handler ran before `wait`, the handler found no continuation to resume.
                if Task.isCancelled { leave(ticket) }
            }
        } onCancel: {
            leave(ticket)
        }
    }

    private func wait(_ ticket: Int, _ continuation: CheckedContinuation<Value?, Never>) {
        let value = state.withLock { state in
            if state.value == nil { state.waiting[ticket] = continuation }
            return state.value
        }
        if let value { continuation.resume(returning: value) }
    }

    private func leave(_ ticket: Int) {
        state.withLock { $0.waiting.removeValue(forKey: ticket) }?.resume(returning: nil)
    }
}

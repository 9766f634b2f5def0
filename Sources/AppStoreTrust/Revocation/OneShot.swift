// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// A value that comes once, and that any number of tasks wait for.
///
/// Unlike the value of a `Task`, it can be waited for by tasks that stop waiting when they are cancelled.
final class OneShot<Value: Sendable>: Sendable {
    private struct State {
        var value: Value?
        var waiting: [Int: CheckedContinuation<Value?, Never>] = [:]
        var lastTicket = 0
    }

    private let state = Mutex(State())

    /// Gives the value to all who wait and will wait. The first value counts, later ones change nothing.
    func set(_ value: Value) {
        let waiting = state.withLock { state in
            guard state.value == nil else { return [Int: CheckedContinuation<Value?, Never>]() }
            state.value = value
            defer { state.waiting = [:] }
            return state.waiting
        }
        for continuation in waiting.values { continuation.resume(returning: value) }
    }

    /// Waits for the value. `nil` where the waiting task was cancelled before it came.
    func value() async -> Value? {
        let ticket = state.withLock { state in
            state.lastTicket &+= 1
            return state.lastTicket
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                wait(ticket, continuation)
                // A cancellation before this finds nobody who waits.
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

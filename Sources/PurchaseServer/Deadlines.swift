// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Deadlines that are nearly never reached, with one timer for all of them: a timer of its own for each request stays with
/// the system until it ends, long after the request, and costs more than reading most bodies.
final class Deadlines: Sendable {
    /// How often is looked whether one has passed.
    private static let precision = Duration.seconds(1)

    private struct Waiter {
        let end: ContinuousClock.Instant
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct State {
        var waiters: [Int: Waiter] = [:]
        var lastNumber = 0
        var isTicking = false
    }

    private let state = Mutex(State())

    /// Returns after some time, of which it may be a second late.
    ///
    /// - Throws: `CancellationError` as soon as the task is cancelled.
    func wait(for duration: Duration) async throws {
        let end = ContinuousClock.now + duration
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                add(Waiter(end: end, continuation: continuation), number)
                // The handler may have run before there was anything to cancel.
                if Task.isCancelled { cancel(number) }
            }
        } onCancel: {
            cancel(number)
        }
    }

    private func add(_ waiter: Waiter, _ number: Int) {
        let isFirst = state.withLock { state in
            state.waiters[number] = waiter
            defer { state.isTicking = true }
            return !state.isTicking
        }
        guard isFirst else { return }
        // For all requests, and no part of the one that happens to be first.
        Task.detached { [self] in
            repeat { try? await Task.sleep(for: Self.precision) } while resumeOverdue()
        }
    }

    private func cancel(_ number: Int) {
        let waiter = state.withLock { $0.waiters.removeValue(forKey: number) }
        waiter?.continuation.resume(throwing: CancellationError())
    }

    /// Returns whether somebody still waits.
    private func resumeOverdue() -> Bool {
        let now = ContinuousClock.now
        let (overdue, isWaiting) = state.withLock { state in
            let overdue = state.waiters.filter { $0.value.end <= now }
            for number in overdue.keys { state.waiters[number] = nil }
            state.isTicking = !state.waiters.isEmpty
            return (overdue.values.map(\.continuation), state.isTicking)
        }
        for continuation in overdue { continuation.resume() }
        return isWaiting
    }
}

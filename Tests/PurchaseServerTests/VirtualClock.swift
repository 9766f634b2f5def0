// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// A clock that stands still until a task sleeps. It then jumps to the deadline, and the task does not wait.
final class VirtualClock: Clock {
    struct Instant: InstantProtocol {
        var offset: Duration
        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private let offset = Mutex(Duration.zero)
    /// Whether a task is cancelled as soon as it sleeps, so that a service does one round and ends.
    private let cancelsSleepingTasks: Bool

    init(cancelsSleepingTasks: Bool = false) {
        self.cancelsSleepingTasks = cancelsSleepingTasks
    }

    var now: Instant { Instant(offset: offset.withLock { $0 }) }
    var minimumResolution: Duration { .zero }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        if cancelsSleepingTasks { withUnsafeCurrentTask { $0?.cancel() } }
        try Task.checkCancellation()
        offset.withLock { $0 = max($0, deadline.offset) }
        // A service that sleeps again and again would keep a thread busy if it only yielded.
        try await Task.sleep(for: .microseconds(1))
    }
}

/// A clock that stands still. A task that sleeps wakes only if it is cancelled.
struct StandingClock: Clock {
    var now: VirtualClock.Instant { VirtualClock.Instant(offset: .zero) }
    var minimumResolution: Duration { .zero }

    func sleep(until deadline: VirtualClock.Instant, tolerance: Duration?) async throws {
        try await Task.sleep(for: .seconds(86_400))
    }
}

// SPDX-License-Identifier: Apache-2.0

/// The time between two runs of a periodic task. A monotonic clock measures the interval, because a step back of the
/// wall clock must not prolong the interval.
struct Interval {
    private let length: Duration
    private let clock: any Clock<Duration>
    /// The time since the interval began; `nil` before it first began.
    private var age: (@Sendable () -> Duration)?

    init(_ length: Duration, _ clock: any Clock<Duration>) {
        self.length = length
        self.clock = clock
    }

    var isOver: Bool { age.map { $0() >= length } ?? true }

    mutating func begin() { age = clock.stopwatch() }
}

extension Clock where Duration == Swift.Duration {
    /// Starts a measurement.
    ///
    /// - Returns: A function that returns the time since the start.
    func stopwatch() -> @Sendable () -> Duration {
        let start = now
        return { start.duration(to: now) }
    }

    /// Waits.
    ///
    /// - Returns: False if the task was cancelled during the wait.
    @discardableResult
    func pause(for time: Duration) async -> Bool {
        // A clock throws only if the task is cancelled.
        (try? await self.sleep(for: time)) != nil
    }
}

// SPDX-License-Identifier: Apache-2.0

/// A time span after which something is done again, by the clock that nobody sets: a wall clock that goes back must not
/// end it.
struct Interval {
    private let length: Duration
    private let clock: any Clock<Duration>
    /// The time since it began; `nil` before it began first.
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
    /// - Returns: False if the task was cancelled meanwhile.
    @discardableResult
    func pause(for time: Duration) async -> Bool {
        // A clock throws for a task that is cancelled, and for nothing else.
        (try? await self.sleep(for: time)) != nil
    }
}

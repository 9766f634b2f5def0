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

// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A virtual clock that stands still, or runs faster or slower than the wall clock. The caller passes the wall clock's
/// time.
public struct TurnableClock: Hashable, Sendable {
    /// The highest speed: a year in a second. At a higher speed, more events become due than the simulator can perform
    /// in time.
    public static let topSpeed = 31_622_400.0

    /// The most days of a single turn. No test needs more than ten years. A larger number is a typing error, and would
    /// keep the world busy for minutes.
    public static let maxTurnDays: Int64 = 3660

    /// The latest time at which a clock can stop, 2100-01-01. Sums of periods after this date would leave the calendar
    /// of certificates.
    public static let latestEnd = Timestamp(milliseconds: 4_102_444_800_000)

    /// Virtual seconds per second of the wall clock, from 0 to ``topSpeed``; 0 stops the clock.
    public private(set) var speed: Double
    /// The time at which the clock stops.
    public let end: Timestamp
    private var start: Timestamp
    private var wallStart: Timestamp
    /// The time at which the clock waits, until it is told to go on; `nil` if it does not wait.
    private var stop: Timestamp?

    /// Creates a clock.
    ///
    /// - Parameters:
    ///   - start: The clock's first time.
    ///   - end: The clock's last time, at most 2100-01-01.
    ///   - speed: A number out of the range becomes the nearest number in the range.
    ///   - wall: The time of the wall clock.
    public init(start: Timestamp, end: Timestamp, speed: Double, at wall: Timestamp) {
        self.start = start
        wallStart = wall
        self.end = min(end, Self.latestEnd)
        self.speed = Self.bounded(speed)
    }

    /// The virtual time at a time of the wall clock. If the wall clock was set back to a time before the last change of
    /// this clock, the result is the virtual time of that change.
    public func now(at wall: Timestamp) -> Timestamp {
        let passed = Double(max(0, wall.milliseconds - wallStart.milliseconds)) * speed
        let end = min(end, stop ?? end)
        let left = max(0, end.milliseconds - start.milliseconds)
        guard passed < Double(left) else { return max(start, end) }
        return Timestamp(milliseconds: start.milliseconds + Int64(passed))
    }

    /// Changes the speed from now on. A number out of the range becomes the nearest number in the range.
    mutating func run(_ speed: Double, at wall: Timestamp) {
        self = TurnableClock(start: now(at: wall), end: end, speed: speed, at: wall)
    }

    /// Turns the clock forward. If `date` is before the clock's present time, the time stays.
    mutating func turn(to date: Timestamp, at wall: Timestamp) {
        self = TurnableClock(start: max(now(at: wall), min(date, end)), end: end, speed: speed, at: wall)
    }

    /// Lets the clock wait when it reaches a time, or never. A clock that has waited goes on from where it stands.
    mutating func wait(at time: Timestamp?, wall: Timestamp) {
        if let stop, now(at: wall) >= stop { run(speed, at: wall) }
        stop = time
    }

    private static func bounded(_ speed: Double) -> Double { speed > 0 ? min(speed, topSpeed) : 0 }
}

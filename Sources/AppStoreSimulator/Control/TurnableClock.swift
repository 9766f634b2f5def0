// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A virtual clock that stands still, or runs faster or slower than the wall clock that the caller passes in.
public struct TurnableClock: Hashable, Sendable {
    /// The highest speed: a year in a second. Beyond it a world has no time for what falls due.
    public static let topSpeed = 31_622_400.0

    /// The most days of one turn. Ten years are more than any test needs; more is a slip of the keyboard, and would
    /// keep the world busy for minutes.
    public static let maxTurnDays: Int64 = 3660

    /// The latest end of a clock, 2100-01-01: sums of periods beyond it would leave the calendar of certificates.
    public static let latestEnd = Timestamp(milliseconds: 4_102_444_800_000)

    /// Virtual seconds in a second of the wall clock, from 0 to ``topSpeed``; 0 stands still.
    public private(set) var speed: Double
    /// The time at which it stops.
    public let end: Timestamp
    private var start: Timestamp
    private var wallStart: Timestamp

    /// Creates a clock.
    ///
    /// - Parameters:
    ///   - start: Its first time.
    ///   - end: Its last time, at most 2100-01-01.
    ///   - speed: A number out of its range becomes the nearest in it.
    ///   - wall: The time of the wall clock.
    public init(start: Timestamp, end: Timestamp, speed: Double, at wall: Timestamp) {
        self.start = start
        wallStart = wall
        self.end = min(end, Self.latestEnd)
        self.speed = Self.bounded(speed)
    }

    /// The virtual time. A wall clock that was set back stops it until then.
    public func now(at wall: Timestamp) -> Timestamp {
        let passed = Double(max(0, wall.milliseconds - wallStart.milliseconds)) * speed
        let left = max(0, end.milliseconds - start.milliseconds)
        guard passed < Double(left) else { return max(start, end) }
        return Timestamp(milliseconds: start.milliseconds + Int64(passed))
    }

    /// Runs at another speed from now on; a number out of its range becomes the nearest in it.
    mutating func run(_ speed: Double, at wall: Timestamp) {
        self = TurnableClock(start: now(at: wall), end: end, speed: speed, at: wall)
    }

    /// Turns it forward. A time before its own changes nothing.
    mutating func turn(to date: Timestamp, at wall: Timestamp) {
        self = TurnableClock(start: max(now(at: wall), min(date, end)), end: end, speed: speed, at: wall)
    }

    private static func bounded(_ speed: Double) -> Double { speed > 0 ? min(speed, topSpeed) : 0 }
}

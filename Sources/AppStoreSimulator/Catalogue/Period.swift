// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A length of time in calendar units, in the notation of App Store Connect and `.storekit` files: `P3D`, `P1W`, `P6M`,
/// `P1Y`.
public struct Period: Hashable, Sendable {
    /// A calendar unit, by its letter in ISO 8601.
    public enum Unit: Character, CaseIterable, Sendable {
        case day = "D"
        case week = "W"
        case month = "M"
        case year = "Y"
    }

    /// The unit.
    public var unit: Unit
    /// The number of units: 1 to ``longest``.
    public var count: Int

    /// The largest count, whatever the unit: the number of days in a hundred years. Even if the unit is a year, sums of
    /// such periods are far from an overflow.
    public static let longest = 36_525

    /// Creates a period. A count out of the range becomes the nearest count in the range.
    public init(_ count: Int, _ unit: Unit) {
        self.count = min(max(count, 1), Self.longest)
        self.unit = unit
    }

    /// A period with a single unit, such as `P2M`.
    ///
    /// - Returns: `nil` for any other text, including a duration of several units such as `P1Y6M`.
    public init?(iso8601 text: String) {
        guard text.first == "P", let letter = text.last, let unit = Unit(rawValue: letter),
            let count = Int(text.dropFirst().dropLast()), (1...Self.longest).contains(count)
        else { return nil }
        self.init(count, unit)
    }

    /// The period in ISO 8601.
    public var iso8601: String { "P\(count)\(unit.rawValue)" }

    /// This period, repeated `factor` times.
    public func times(_ factor: Int) -> Period {
        let (product, overflows) = count.multipliedReportingOverflow(by: factor)
        return Period(overflows ? Self.longest : product, unit)
    }

    /// The end of a period that begins at `start`, by the calendar of UTC.
    ///
    /// If the last month is too short for the day, the period ends on the month's last day: a month from 31 January
    /// ends on 28 February.
    public func end(from start: Timestamp) -> Timestamp {
        switch unit {
        case .day: start.adding(days: count)
        case .week: start.adding(days: count * 7)
        case .month: start.adding(months: count)
        case .year: start.adding(months: count * 12)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A length of time in calendar units, as App Store Connect and `.storekit` files write it: `P3D`, `P1W`, `P6M`, `P1Y`.
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
    /// How many units: 1 to ``longest``.
    public var count: Int

    /// A hundred years of any unit but the year. Sums of such periods stay far inside the calendar.
    public static let longest = 36_525

    /// Creates a period; a count out of its range becomes the nearest one in it.
    public init(_ count: Int, _ unit: Unit) {
        self.count = min(max(count, 1), Self.longest)
        self.unit = unit
    }

    /// A period of one unit, as in `P2M`.
    ///
    /// - Returns: `nil` if the text is anything else, also if it is a duration of several units such as `P1Y6M`.
    public init?(iso8601 text: String) {
        guard text.first == "P", let letter = text.last, let unit = Unit(rawValue: letter),
            let count = Int(text.dropFirst().dropLast()), (1...Self.longest).contains(count)
        else { return nil }
        self.init(count, unit)
    }

    /// The period as ISO 8601 writes it.
    public var iso8601: String { "P\(count)\(unit.rawValue)" }

    /// As long as this many of it in a row.
    public func times(_ factor: Int) -> Period {
        let (product, overflows) = count.multipliedReportingOverflow(by: factor)
        return Period(overflows ? Self.longest : product, unit)
    }

    /// The instant at which a period ends that begins at `start`, by the calendar of UTC.
    ///
    /// A month that is too short ends the period on its last day: a month from 31 January ends on 28 February.
    public func end(from start: Timestamp) -> Timestamp {
        switch unit {
        case .day: start.adding(days: count)
        case .week: start.adding(days: count * 7)
        case .month: start.adding(months: count)
        case .year: start.adding(months: count * 12)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

/// An instant as Apple sends it: whole milliseconds since 1970-01-01T00:00:00Z.
public struct Timestamp: Hashable, Sendable {
    /// Milliseconds since 1970-01-01T00:00:00Z; negative for earlier instants.
    public var milliseconds: Int64

    /// The instant `milliseconds` after 1970-01-01T00:00:00Z.
    public init(milliseconds: Int64) {
        self.milliseconds = milliseconds
    }
}

extension Timestamp: Comparable {
    public static func < (left: Self, right: Self) -> Bool { left.milliseconds < right.milliseconds }
}

extension Timestamp {
    /// The years 0 to 9999, written with four digits. Xcode has been seen to sign a date of the year 0.
    static let calendar = Timestamp(milliseconds: -62_167_219_200_000)...Timestamp(milliseconds: 253_402_300_799_999)
}

extension Timestamp: Codable {
    /// Decodes a number of milliseconds in the years 0 to 9999. Xcode signs fractions of milliseconds, which are
    /// rounded down.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let number: Int64
        // A value that is not a whole number is read as a fraction below, or fails there.
        if let whole = try? container.decode(Int64.self) {
            number = whole
        } else {
            // A number outside the range of `Int64` is refused below, because `.max` is outside the calendar too.
            number = Int64(exactly: try container.decode(Double.self).rounded(.down)) ?? .max
        }
        self.init(milliseconds: number)
        guard Self.calendar.contains(self) else {
            throw DecodingError.dataCorruptedError(
                in: container, debugDescription: "A time in milliseconds beyond the calendar.")
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(milliseconds)
    }
}

// MARK: - Durations

extension Timestamp {
    /// The instant `duration` later, in whole milliseconds. If the sum overflows, the result is the last instant, or
    /// the first instant for a negative duration.
    package func advanced(by duration: Duration) -> Timestamp {
        let (seconds, attoseconds) = duration.components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        let (sum, overflow2) = milliseconds.addingReportingOverflow(product)
        let (end, overflow3) = sum.addingReportingOverflow(attoseconds / 1_000_000_000_000_000)
        let isBeyond = overflow || overflow2 || overflow3
        return Timestamp(milliseconds: isBeyond ? (duration < .zero ? .min : .max) : end)
    }

    /// The time from this instant to `other`. It is negative if `other` is earlier. If the difference overflows, the
    /// result has its sign, and the greatest length that fits into 64 bits of milliseconds.
    package func duration(to other: Timestamp) -> Duration {
        let (difference, overflow) = other.milliseconds.subtractingReportingOverflow(milliseconds)
        return .milliseconds(overflow ? (other < self ? .min : .max) : difference)
    }
}

// MARK: - Calendar

extension Timestamp {
    /// The instant of a date and a time in UTC, or `nil` if the calendar does not have the date or the time.
    package init?(_ date: (year: Int, month: Int, day: Int), _ time: (hour: Int, minute: Int, second: Int)) {
        let date = CalendarDate(
            year: date.year, month: date.month, day: date.day, hour: time.hour, minute: time.minute, second: time.second
        )
        guard let date else { return nil }
        self.init(milliseconds: date.secondsSince1970 * 1000)
    }
}

extension Timestamp {
    /// The same time of day, `days` days later, by the calendar of UTC.
    package func adding(days: Int) -> Timestamp { Timestamp(milliseconds: milliseconds + Int64(days) * 86_400_000) }

    /// The same time and day of the month, `months` months later. If that later month is too short, the result is its
    /// last day.
    package func adding(months: Int) -> Timestamp {
        var date = CalendarDate(milliseconds: milliseconds)
        let month = date.year * 12 + date.month - 1 + months
        date.year = month / 12
        date.month = month % 12 + 1
        date.day = min(date.day, CalendarDate.days(in: date.month, of: date.year))
        return Timestamp(milliseconds: date.secondsSince1970 * 1000 + Int64(date.millisecond))
    }
}

// MARK: - ISO 8601

extension Timestamp {
    /// Reads an ISO 8601 date and time in UTF-8, as receipts and people write them.
    ///
    /// The form is `YYYY-MM-DDTHH:MM:SS`, an optional fraction of up to nine digits, then `Z`, `+HHMM` or `+HH:MM`. An
    /// offset may also begin with `-`. The fraction is truncated to milliseconds. Returns `nil` for any other text, for
    /// a date or time that does not exist, such as 30 February, and for an instant outside the years 0 to 9999.
    public init?(iso8601 text: ArraySlice<UInt8>) {
        var digits = DateDigits(text)
        guard let year = digits.number(4), digits.take("-"), let month = digits.number(2), digits.take("-"),
            let day = digits.number(2), digits.take("T"), let hour = digits.number(2), digits.take(":"),
            let minute = digits.number(2), digits.take(":"), let second = digits.number(2),
            let fraction = digits.fraction(), let offset = digits.zone(), digits.isAtEnd,
            let date = CalendarDate(year: year, month: month, day: day, hour: hour, minute: minute, second: second)
        else { return nil }
        self.init(milliseconds: (date.secondsSince1970 - Int64(offset)) * 1000 + Int64(fraction))
        guard Self.calendar.contains(self) else { return nil }
    }

    /// Reads an ISO 8601 date and time; see ``init(iso8601:)-(ArraySlice<UInt8>)``.
    public init?(iso8601 text: String) {
        self.init(iso8601: Array(text.utf8)[...])
    }

    /// The instant as `YYYY-MM-DDTHH:MM:SSZ`, with milliseconds only if they are not 0.
    public var iso8601: String {
        var text: [UInt8] = []
        let date = CalendarDate(milliseconds: milliseconds)
        date.appendDay(to: &text)
        text.append(UInt8(ascii: "T"))
        date.appendTime(to: &text)
        if date.millisecond != 0 {
            text.append(UInt8(ascii: "."))
            date.appendMillisecond(to: &text)
        }
        text.append(UInt8(ascii: "Z"))
        return String(decoding: text, as: UTF8.self)
    }
}

/// A cursor over the digits of a date.
private struct DateDigits {
    private let text: ArraySlice<UInt8>
    private var position: Int

    init(_ text: ArraySlice<UInt8>) {
        self.text = text
        position = text.startIndex
    }

    var isAtEnd: Bool { position == text.endIndex }

    mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard position < text.endIndex, UInt32(text[position]) == character.value else { return false }
        position += 1
        return true
    }

    mutating func number(_ width: Int) -> Int? {
        guard text.endIndex - position >= width else { return nil }
        var value = 0
        for _ in 0..<width {
            let digit = text[position]
            guard digit >= 0x30, digit <= 0x39 else { return nil }
            position += 1
            value = value * 10 + Int(digit - 0x30)
        }
        return value
    }

    /// Reads an optional `.` with one to nine digits as milliseconds. No clock writes more digits.
    mutating func fraction() -> Int? {
        guard take(".") else { return 0 }
        var milliseconds = 0
        var count = 0
        while count < 9, let digit = number(1) {
            if count < 3 { milliseconds = milliseconds * 10 + digit }
            count += 1
        }
        guard count > 0 else { return nil }
        for _ in 0..<max(0, 3 - count) { milliseconds *= 10 }
        return milliseconds
    }

    /// Seconds east of UTC.
    mutating func zone() -> Int? {
        if take("Z") { return 0 }
        let sign: Int
        if take("+") { sign = 1 } else if take("-") { sign = -1 } else { return nil }
        guard let hours = number(2) else { return nil }
        _ = take(":")
        guard let minutes = number(2), hours <= 23, minutes <= 59 else { return nil }
        return sign * (hours * 3600 + minutes * 60)
    }
}

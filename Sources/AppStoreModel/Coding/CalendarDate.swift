// SPDX-License-Identifier: Apache-2.0

/// A date and time of the proleptic Gregorian calendar, in UTC or in a zone with a fixed offset.
///
/// For speed, the type uses plain arithmetic instead of a formatter: a receipt holds hundreds of dates, and each date
/// is written in three forms.
package struct CalendarDate: Hashable {
    package var year: Int
    package var month: Int
    var day: Int
    var hour: Int
    var minute: Int
    var second: Int
    var millisecond: Int

    /// Returns `nil` for a date or time that does not exist, such as 30 February, for a year outside 0 to 9999, and for
    /// a leap second.
    init?(year: Int, month: Int, day: Int, hour: Int = 0, minute: Int = 0, second: Int = 0) {
        guard (0...9999).contains(year), (1...12).contains(month), day >= 1, day <= Self.days(in: month, of: year),
            (0...23).contains(hour), (0...59).contains(minute), (0...59).contains(second)
        else { return nil }
        self.year = year
        self.month = month
        self.day = day
        self.hour = hour
        self.minute = minute
        self.second = second
        millisecond = 0
    }

    /// The date `milliseconds` after 1970-01-01T00:00:00Z, in a zone `offset` seconds east of UTC. Every `Int64` has a
    /// date.
    package init(milliseconds: Int64, offset: Int = 0) {
        let (seconds, millisecond) = Self.floor(milliseconds, by: 1000)
        let (days, ofDay) = Self.floor(seconds + Int64(offset), by: 86_400)
        (year, month, day) = Self.civil(fromDays: Int(days))
        hour = Int(ofDay) / 3600
        minute = Int(ofDay) / 60 % 60
        second = Int(ofDay) % 60
        self.millisecond = Int(millisecond)
    }

    var secondsSince1970: Int64 {
        Int64(Self.days(toYear: year, month: month, day: day)) * 86_400 + Int64(hour * 3600 + minute * 60 + second)
    }

    private static func floor(_ value: Int64, by divisor: Int64) -> (quotient: Int64, remainder: Int64) {
        let (quotient, remainder) = value.quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }

    static func isLeap(_ year: Int) -> Bool {
        year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    }

    static func days(in month: Int, of year: Int) -> Int {
        switch month {
        case 2: isLeap(year) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    // The two conversions below count years from 1 March, so a leap day is the last day of its year. An era is 400
    // years (146,097 days).

    static func days(toYear year: Int, month: Int, day: Int) -> Int {
        let shifted = month <= 2 ? year - 1 : year
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }

    private static func civil(fromDays days: Int) -> (year: Int, month: Int, day: Int) {
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
    }

    /// The day of the week; 0 is Sunday.
    static func weekday(ofDays days: Int) -> Int {
        let remainder = (days + 4) % 7
        return remainder < 0 ? remainder + 7 : remainder
    }
}

extension CalendarDate {
    /// Appends `YYYY-MM-DD`.
    func appendDay(to text: inout [UInt8]) {
        if year < 0 { text.append(UInt8(ascii: "-")) }
        let (centuries, years) = abs(year).quotientAndRemainder(dividingBy: 100)
        if centuries > 99 {
            JSONWriter.append(Int64(centuries), to: &text)
        } else {
            Self.appendTwo(centuries, to: &text)
        }
        Self.appendTwo(years, to: &text)
        text.append(UInt8(ascii: "-"))
        Self.appendTwo(month, to: &text)
        text.append(UInt8(ascii: "-"))
        Self.appendTwo(day, to: &text)
    }

    /// Appends `HH:MM:SS`.
    func appendTime(to text: inout [UInt8]) {
        Self.appendTwo(hour, to: &text)
        text.append(UInt8(ascii: ":"))
        Self.appendTwo(minute, to: &text)
        text.append(UInt8(ascii: ":"))
        Self.appendTwo(second, to: &text)
    }

    /// Appends the three digits of the millisecond.
    func appendMillisecond(to text: inout [UInt8]) {
        text.append(UInt8(ascii: "0") + UInt8(millisecond / 100))
        Self.appendTwo(millisecond % 100, to: &text)
    }

    /// Appends the two digits of a number from 0 to 99.
    private static func appendTwo(_ number: Int, to text: inout [UInt8]) {
        let number = UInt8(number)
        text.append(UInt8(ascii: "0") + number / 10)
        text.append(UInt8(ascii: "0") + number % 10)
    }
}

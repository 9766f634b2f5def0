// SPDX-License-Identifier: Apache-2.0

/// The texts of an instant in verifyReceipt answers. An instant has the members `…_date`, `…_date_ms` and `…_date_pst`.
///
/// In spite of its name, `…_date_pst` is in Pacific time with daylight saving.
package enum LegacyDate {
    /// Appends `YYYY-MM-DD HH:MM:SS Etc/GMT`.
    package static func appendGMT(_ instant: Timestamp, to text: inout [UInt8]) {
        append(instant, offset: 0, zone: " Etc/GMT", to: &text)
    }

    /// Appends `YYYY-MM-DD HH:MM:SS America/Los_Angeles`.
    package static func appendPacific(_ instant: Timestamp, to text: inout [UInt8]) {
        append(instant, offset: pacificOffset(at: instant), zone: " America/Los_Angeles", to: &text)
    }

    /// Reads a text of either form, or returns `nil`. One hour of Pacific time occurs twice each autumn. A text in this
    /// hour is read as its first occurrence.
    package static func instant(of text: String) -> Timestamp? {
        let parts = text.split(separator: " ", omittingEmptySubsequences: false)
        guard parts.count == 3, let wall = Timestamp(iso8601: "\(parts[0])T\(parts[1])Z") else { return nil }
        switch parts[2] {
        case "Etc/GMT":
            return wall
        case "America/Los_Angeles":
            let daylight = Timestamp(milliseconds: wall.milliseconds + 7 * 3_600_000)
            let standard = Timestamp(milliseconds: wall.milliseconds + 8 * 3_600_000)
            let instant = pacificOffset(at: daylight) == -7 * 3600 ? daylight : standard
            // The last hours of the year 9999 in Pacific time are in the year 10000 in UTC.
            return Timestamp.calendar.contains(instant) ? instant : nil
        default:
            return nil
        }
    }

    private static func append(
        _ instant: Timestamp, offset: Int, zone: StaticString, to text: inout [UInt8]
    ) {
        let date = CalendarDate(milliseconds: instant.milliseconds, offset: offset)
        date.appendDay(to: &text)
        text.append(UInt8(ascii: " "))
        date.appendTime(to: &text)
        zone.withUTF8Buffer { text.append(contentsOf: $0) }
    }

    /// The offset of America/Los_Angeles, in seconds east of UTC.
    ///
    /// The offset follows the US Energy Policy Act of 2005 from 2007 on, and the previous law from 1987 to 2006. For
    /// earlier years it follows the rules of 1967, which is good enough: no date of the App Store is that old.
    package static func pacificOffset(at instant: Timestamp) -> Int {
        let standard = -8 * 3600
        let year = CalendarDate(milliseconds: instant.milliseconds, offset: standard).year
        // A `Timestamp` may also be in a year outside this range, which could overflow the arithmetic below.
        guard (0...9999).contains(year) else { return standard }
        let start: Int
        let end: Int
        switch year {
        case 2007...:
            start = sunday(2, of: 3, year)
            end = sunday(1, of: 11, year)
        case 1987...:
            start = sunday(1, of: 4, year)
            end = lastSunday(of: 10, year)
        default:
            start = lastSunday(of: 4, year)
            end = lastSunday(of: 10, year)
        }
        // Both changes are at 02:00 local time: at 10:00 UTC from standard time, at 09:00 UTC from daylight time.
        let isDaylight =
            instant.milliseconds >= milliseconds(day: start, utcHour: 10)
            && instant.milliseconds < milliseconds(day: end, utcHour: 9)
        return isDaylight ? standard + 3600 : standard
    }

    private static func sunday(_ ordinal: Int, of month: Int, _ year: Int) -> Int {
        let first = CalendarDate.days(toYear: year, month: month, day: 1)
        return first + (7 - CalendarDate.weekday(ofDays: first)) % 7 + (ordinal - 1) * 7
    }

    private static func lastSunday(of month: Int, _ year: Int) -> Int {
        let last = CalendarDate.days(toYear: year, month: month, day: CalendarDate.days(in: month, of: year))
        return last - CalendarDate.weekday(ofDays: last)
    }

    private static func milliseconds(day: Int, utcHour: Int) -> Int64 {
        (Int64(day) * 24 + Int64(utcHour)) * 3_600_000
    }
}

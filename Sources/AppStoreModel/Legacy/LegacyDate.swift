// SPDX-License-Identifier: Apache-2.0

/// The three spellings of one instant in verifyReceipt answers: `…_date`, `…_date_ms` and `…_date_pst`.
///
/// `_pst` is real Pacific time with daylight saving, in spite of its name.
package enum LegacyDate {
    /// Appends `YYYY-MM-DD HH:MM:SS Etc/GMT`.
    package static func appendGMT(_ instant: Timestamp, to text: inout [UInt8]) {
        append(CalendarDate(instant), zone: " Etc/GMT", to: &text)
    }

    /// Appends `YYYY-MM-DD HH:MM:SS America/Los_Angeles`.
    package static func appendPacific(_ instant: Timestamp, to text: inout [UInt8]) {
        append(CalendarDate(instant, offset: pacificOffset(at: instant)), zone: " America/Los_Angeles", to: &text)
    }

    /// Reads either text. Of the hour that there is twice a year in Pacific time, the first is meant.
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
            // The last hours of the year 9999 on the wall are beyond it in UTC.
            return Timestamp.calendar.contains(instant) ? instant : nil
        default:
            return nil
        }
    }

    private static func append(_ date: CalendarDate, zone: StaticString, to text: inout [UInt8]) {
        date.appendDay(to: &text)
        text.append(UInt8(ascii: " "))
        date.appendTime(to: &text)
        zone.withUTF8Buffer { text.append(contentsOf: $0) }
    }

    /// Seconds east of UTC in America/Los_Angeles.
    ///
    /// The rules of the US Energy Policy Act of 2005 (from 2007 on) and of the law before it (1987 to 2006). The earlier
    /// ones are those of 1967, although no App Store date is that old.
    package static func pacificOffset(at instant: Timestamp) -> Int {
        let standard = -8 * 3600
        let year = CalendarDate(instant, offset: standard).year
        // Beyond four digits there is no text to write, and the arithmetic below could leave `Int64`.
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
        // Both switches are at 02:00 on the wall: 10:00 UTC out of standard time, 09:00 UTC out of daylight time.
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

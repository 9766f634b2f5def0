// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import Testing

@Suite struct LegacyDateTests {
    private static func gmt(_ milliseconds: Int64) -> String {
        var text: [UInt8] = []
        LegacyDate.appendGMT(Timestamp(milliseconds: milliseconds), to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    private static func pacific(_ milliseconds: Int64) -> String {
        var text: [UInt8] = []
        LegacyDate.appendPacific(Timestamp(milliseconds: milliseconds), to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    @Test(arguments: [
        (1_614_582_000_000, "2021-03-01 07:00:00 Etc/GMT", "2021-02-28 23:00:00 America/Los_Angeles"),
        (1_375_340_400_000, "2013-08-01 07:00:00 Etc/GMT", "2013-08-01 00:00:00 America/Los_Angeles"),
        // The hour that does not exist on 10 March 2024, and its neighbours.
        (1_710_064_799_999, "2024-03-10 09:59:59 Etc/GMT", "2024-03-10 01:59:59 America/Los_Angeles"),
        (1_710_064_800_000, "2024-03-10 10:00:00 Etc/GMT", "2024-03-10 03:00:00 America/Los_Angeles"),
        // The hour that occurs twice on 3 November 2024.
        (1_730_624_399_000, "2024-11-03 08:59:59 Etc/GMT", "2024-11-03 01:59:59 America/Los_Angeles"),
        (1_730_624_400_000, "2024-11-03 09:00:00 Etc/GMT", "2024-11-03 01:00:00 America/Los_Angeles"),
    ])
    func `an instant has the App Store's two texts`(milliseconds: Int64, gmt: String, pacific: String) {
        #expect(Self.gmt(milliseconds) == gmt)
        #expect(Self.pacific(milliseconds) == pacific)
    }

    @Test func `Pacific time agrees with the time zone database for every hour of 1987 to 2040`() throws {
        let zone = try #require(TimeZone(identifier: "America/Los_Angeles"))
        for seconds in stride(from: Int64(536_457_600), to: 2_240_611_200, by: 3600) {
            let expected = zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(seconds)))
            let found = LegacyDate.pacificOffset(at: Timestamp(milliseconds: seconds * 1000))
            guard expected != found else { continue }
            Issue.record("at \(Self.gmt(seconds * 1000)): \(found) instead of \(expected)")
            return
        }
    }

    // Found by fuzzing: an answer with such a date could be written and not be read.
    @Test func `a Pacific time of the last hours of the calendar is no instant`() {
        #expect(LegacyDate.instant(of: "9999-12-31 16:00:00 America/Los_Angeles") == nil)
        let last = LegacyDate.instant(of: "9999-12-31 15:59:59 America/Los_Angeles")
        #expect(last?.iso8601 == "9999-12-31T23:59:59Z")
    }

    @Test(arguments: [Int64.min, Int64.max, -62_135_769_600_000])
    func `instants that no calendar reaches do not trap`(milliseconds: Int64) {
        #expect(Self.pacific(milliseconds).hasSuffix(" America/Los_Angeles"))
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import Testing

@Suite struct TimestampTests {
    @Test(arguments: [
        ("1970-01-01T00:00:00Z", 0),
        ("2013-08-01T07:00:00Z", 1_375_340_400_000),
        ("2020-07-22T18:33:15+0100", 1_595_439_195_000),
        ("2020-07-22T18:33:15+01:00", 1_595_439_195_000),
        ("2020-07-22T16:33:15-01:00", 1_595_439_195_000),
        ("2020-02-29T23:59:59.5Z", 1_583_020_799_500),
        ("2020-02-29T23:59:59.123456Z", 1_583_020_799_123),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000),
        ("4001-01-01T00:00:00Z", 64_092_211_200_000),
        ("9999-12-31T23:59:59Z", 253_402_300_799_000),
    ])
    func `an ISO 8601 text is read as its instant`(text: String, milliseconds: Int64) {
        #expect(Timestamp(iso8601: text)?.milliseconds == milliseconds)
    }

    @Test(arguments: [
        "", "2020", "2020-07-22", "2020-07-22T18:33:15", "2020-07-22 18:33:15Z", "2020-02-30T00:00:00Z",
        "2019-02-29T00:00:00Z", "2020-13-01T00:00:00Z", "2020-00-01T00:00:00Z", "2020-01-00T00:00:00Z",
        "2020-01-01T24:00:00Z", "2020-01-01T00:60:00Z", "2020-01-01T00:00:60Z", "2020-01-01T00:00:00ZZ",
        "2020-01-01T00:00:00.Z", "2020-01-01T00:00:00.1234567890Z", "2020-01-01T00:00:00+24:00",
        "2020-01-01T00:00:00+1", "12020-01-01T00:00:00Z", "-020-01-01T00:00:00Z", "２020-01-01T00:00:00Z",
    ])
    func `a text that is not ISO 8601 is no instant`(text: String) {
        #expect(Timestamp(iso8601: text) == nil)
    }

    // Found by fuzzing: they were read as instants whose own text could not be read.
    @Test(arguments: ["9999-12-31T23:59:59-0815", "9999-12-31T23:59:59.999-00:01", "0000-01-01T00:00:00+00:01"])
    func `a text whose instant lies beyond the calendar is no instant`(text: String) {
        #expect(Timestamp(iso8601: text) == nil)
    }

    @Test(arguments: ["0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"])
    func `the first and the last instant of the calendar are read from their text`(text: String) {
        #expect(Timestamp(iso8601: text)?.iso8601 == text)
    }

    @Test func `every hour of 2006 to 2040 is read from its text`() {
        for hour in stride(from: Int64(1_136_073_600_000), to: 2_240_611_200_000, by: 3_600_000) {
            let instant = Timestamp(milliseconds: hour)
            guard Timestamp(iso8601: instant.iso8601) != instant else { continue }
            Issue.record("\(hour) became \(instant.iso8601)")
            return
        }
    }

    @Test(arguments: [Int64.min, -1, 0, 1, Int64.max])
    func `every instant has a text`(milliseconds: Int64) {
        #expect(Timestamp(milliseconds: milliseconds).iso8601.hasSuffix("Z"))
    }

    @Test(arguments: [
        ("1697679936049", 1_697_679_936_049), ("1697679936049.7297", 1_697_679_936_049),
        ("-62135769600000", -62_135_769_600_000), ("-0.5", -1), ("1.5e3", 1500),
    ])
    func `JSON numbers are milliseconds, without fractions`(json: String, milliseconds: Int64) throws {
        let instant = try JSONValue(parsing: json.utf8).decode(Timestamp.self)
        #expect(instant.milliseconds == milliseconds)
    }

    @Test(arguments: [
        "1e300", "-1e300", "9223372036854775807", "-9223372036854775808", "253402300800000", "-62167219200001",
        "9223372036854775808", "\"1697679936049\"", "true", "null", "1e999",
    ])
    func `JSON that is no number of milliseconds is an error`(json: String) {
        #expect(throws: DecodingError.self) { try JSONValue(parsing: json.utf8).decode(Timestamp.self) }
    }
}

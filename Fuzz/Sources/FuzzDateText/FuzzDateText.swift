// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import FuzzSupport

/// Fuzzes a date as text, in ISO 8601 or as verifyReceipt writes it, or the eight bytes of an instant.
///
/// A date that can be read is written to a text that reads as the same date. Any instant can be written.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzDateText(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    fuzz(start, count) { bytes in
        let legacyInstant = LegacyDate.instant(of: String(decoding: bytes, as: UTF8.self))
        for instant in [Timestamp(iso8601: bytes[...]), legacyInstant].compactMap({ $0 }) {
            require(Timestamp(iso8601: instant.iso8601) == instant, "ISO 8601 reads as the same instant")
            requireSameLegacy(instant)
        }
        guard bytes.count == 8 else { return }
        let instant = Timestamp(milliseconds: bytes.reduce(0) { $0 << 8 | Int64($1) })
        let texts = [instant.iso8601] + legacy(instant)
        guard years.contains(instant.milliseconds) else { return }
        require(Timestamp(iso8601: texts[0]) == instant, "the text of an instant reads as the same instant")
        requireSameLegacy(instant)
    }
}

/// The years 0 to 9999, except the days at both ends, whose text in another time zone has another year.
private let years: Range<Int64> = -62_167_132_800_000..<253_402_214_400_000

private func legacy(_ instant: Timestamp) -> [String] {
    var (gmt, pacific): ([UInt8], [UInt8]) = ([], [])
    LegacyDate.appendGMT(instant, to: &gmt)
    LegacyDate.appendPacific(instant, to: &pacific)
    return [gmt, pacific].map { String(decoding: $0, as: UTF8.self) }
}

/// Requires that both texts of an instant read as the same instant. They have no fraction of a second. In Pacific time
/// one hour a year occurs twice, and is read as the first of the two.
private func requireSameLegacy(_ instant: Timestamp) {
    guard years.contains(instant.milliseconds) else { return }
    let fraction = (instant.milliseconds % 1000 + 1000) % 1000
    let whole = Timestamp(milliseconds: instant.milliseconds - fraction)
    let texts = legacy(instant)
    require(LegacyDate.instant(of: texts[0]) == whole, "a date in GMT reads as the same instant")
    let pacific = LegacyDate.instant(of: texts[1])
    let anHourBefore = Timestamp(milliseconds: whole.milliseconds - 3_600_000)
    require(pacific == whole || pacific == anHourBefore, "a date in Pacific time reads as the same instant")
    require(pacific.map(legacy)?[1] == texts[1], "a date in Pacific time is written as it was read")
}

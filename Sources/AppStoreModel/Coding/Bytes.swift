// SPDX-License-Identifier: Apache-2.0

// Compares and searches bytes with `memcmp` and `memchr`. Swift's `==` takes ten times as long.

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

extension ArraySlice<UInt8> {
    /// Whether these bytes equal the bytes of `other`.
    package func isSame(as other: ArraySlice<UInt8>) -> Bool {
        guard count == other.count else { return false }
        return withUnsafeBytes { bytes in
            other.withUnsafeBytes { other in
                guard let start = bytes.baseAddress, let otherStart = other.baseAddress else { return true }
                return memcmp(start, otherStart, bytes.count) == 0
            }
        }
    }

    /// The index of the first byte equal to `byte`, or `nil` if there is none.
    package func indexOfFirst(_ byte: UInt8) -> Int? {
        withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress, let found = memchr(start, Int32(byte), count) else { return nil }
            return startIndex + (UnsafeRawPointer(found) - start)
        }
    }
}

extension [UInt8] {
    /// Whether these bytes equal the bytes of `other`.
    package func isSame(as other: ArraySlice<UInt8>) -> Bool { self[...].isSame(as: other) }

    /// The index of the first byte equal to `byte` at or after `start`, or `nil` if there is none.
    package func indexOfFirst(_ byte: UInt8, from start: Int = 0) -> Int? {
        start < count ? self[start...].indexOfFirst(byte) : nil
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// Whether one of these bytes is `byte`.
    package func has(_ byte: UInt8) -> Bool { baseAddress.map { memchr($0, Int32(byte), count) != nil } ?? false }
}

/// Eight bytes of a text, tested at once: a test of each byte by itself takes five times as long. A test sets the
/// highest bit of each byte that passes, up to the first such byte; bits after it mean nothing.
struct EightBytes {
    private static let ones: UInt64 = 0x0101_0101_0101_0101
    private static let highest: UInt64 = 0x8080_8080_8080_8080
    private let bits: UInt64

    init(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        bits = bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self).littleEndian
    }

    /// The bytes below `limit`, which is at most 0x80.
    func below(_ limit: UInt8) -> UInt64 { (bits &- Self.ones &* UInt64(limit)) & ~bits & Self.highest }

    func equal(to byte: UInt8) -> UInt64 {
        let difference = bits ^ Self.ones &* UInt64(byte)
        return (difference &- Self.ones) & ~difference & Self.highest
    }

    /// The bytes for which ``UInt8/endsPlainText`` holds.
    var ends: UInt64 { equal(to: UInt8(ascii: "\"")) | equal(to: UInt8(ascii: "\\")) | below(0x20) }

    /// The bytes above `~`, the last printable character of ASCII.
    var beyondASCII: UInt64 { (bits &+ Self.ones | bits) & Self.highest }
}

extension UInt8 {
    /// Whether the byte ends plain text in a JSON string: a quote, a backslash or a control character.
    var endsPlainText: Bool { self < 0x20 || self == UInt8(ascii: "\"") || self == UInt8(ascii: "\\") }
}

extension UnsafeRawBufferPointer {
    /// The index of the first byte at or after `start` that passes a test, given for eight bytes and for a single
    /// byte; `count` if there is none.
    @inline(__always)
    func firstIndex(from start: Int, _ eight: (EightBytes) -> UInt64, _ one: (UInt8) -> Bool) -> Int {
        var index = start
        while count - index >= 8 {
            let found = eight(EightBytes(self, at: index))
            if found != 0 { return index + found.trailingZeroBitCount / 8 }
            index += 8
        }
        while index < count, !one(self[index]) { index += 1 }
        return index
    }
}

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

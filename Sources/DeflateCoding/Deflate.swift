// SPDX-License-Identifier: Apache-2.0

import CZlib

/// DEFLATE (RFC 1951). It shortens stored receipts, whose purchases repeat the same values, and it is the compression
/// inside of gzip.
package enum Deflate {
    /// A negative value makes zlib omit the header and the checksum. A stored document needs neither, because the
    /// ledger stores each document under its digest.
    private static let bare = -MAX_WBITS
    /// With 16 added, zlib reads the header and the checksum of gzip.
    private static let gzip = MAX_WBITS + 16
    private static let streamSize = Int32(MemoryLayout<z_stream>.size)

    /// - Returns: `nil` if zlib cannot allocate memory.
    package static func compress(_ bytes: [UInt8]) -> [UInt8]? {
        withStream { stream in
            let code = deflateInit2_(
                stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, bare, Int32(MAX_MEM_LEVEL), Z_DEFAULT_STRATEGY, ZLIB_VERSION,
                streamSize)
            guard code == Z_OK else { return nil }
            defer { deflateEnd(stream) }
            return run(deflate, stream, bytes[...], capacity: Int(deflateBound(stream, UInt(bytes.count))))
        }
    }

    /// - Parameter count: The length of the result. Decompression stops at this length, whatever the length of the
    ///   input.
    /// - Returns: `nil` unless the input begins with a complete DEFLATE stream that decompresses to exactly `count`
    ///   bytes.
    package static func decompress(_ bytes: ArraySlice<UInt8>, count: Int) -> [UInt8]? {
        decompress(bytes, bare, count: count)
    }

    /// Decompresses a gzip file (RFC 1952) with one member.
    ///
    /// - Parameter limit: The maximum number of bytes of the result. The file itself states the length of the result in
    ///   its last four bytes.
    /// - Returns: `nil` if the input is not such a file, or if the result has more than `limit` bytes.
    package static func gunzip(_ bytes: ArraySlice<UInt8>, atMost limit: Int) -> [UInt8]? {
        guard bytes.count >= 4 else { return nil }
        let count = bytes.suffix(4).reversed().reduce(0) { $0 << 8 | Int($1) }
        return count <= limit ? decompress(bytes, gzip, count: count) : nil
    }

    private static func decompress(_ bytes: ArraySlice<UInt8>, _ window: Int32, count: Int) -> [UInt8]? {
        withStream { stream in
            guard inflateInit2_(stream, window, ZLIB_VERSION, streamSize) == Z_OK else { return nil }
            defer { inflateEnd(stream) }
            // The capacity is one byte more than needed, because without any room for output zlib would not report the
            // end of an empty result.
            let result = run(inflate, stream, bytes, capacity: count + 1)
            return result?.count == count ? result : nil
        }
    }

    /// Keeps the stream in place in memory, because zlib's internal state points back to it.
    private static func withStream(_ body: (UnsafeMutablePointer<z_stream>) -> [UInt8]?) -> [UInt8]? {
        var stream = z_stream()
        return withUnsafeMutablePointer(to: &stream, body)
    }

    private static func run(
        _ step: (UnsafeMutablePointer<z_stream>, Int32) -> Int32, _ stream: UnsafeMutablePointer<z_stream>,
        _ bytes: ArraySlice<UInt8>, capacity: Int
    ) -> [UInt8]? {
        var code = Z_OK
        let result = bytes.withUnsafeBufferPointer { input in
            [UInt8](unsafeUninitializedCapacity: capacity) { output, count in
                stream.pointee.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.pointee.avail_in = UInt32(input.count)
                stream.pointee.next_out = output.baseAddress
                stream.pointee.avail_out = UInt32(capacity)
                code = step(stream, Z_FINISH)
                count = capacity - Int(stream.pointee.avail_out)
            }
        }
        return code == Z_STREAM_END ? result : nil
    }
}

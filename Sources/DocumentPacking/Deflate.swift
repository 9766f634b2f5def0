// SPDX-License-Identifier: Apache-2.0

import CZlib

/// DEFLATE (RFC 1951), for receipts, in which purchases repeat the same values.
enum Deflate {
    /// A negative value makes zlib omit header and checksum, which a document with a digest does not need.
    private static let window = -MAX_WBITS
    private static let streamSize = Int32(MemoryLayout<z_stream>.size)

    /// - Returns: `nil` if zlib has no memory.
    static func compress(_ bytes: [UInt8]) -> [UInt8]? {
        withStream { stream in
            let (level, memory, strategy) = (Z_DEFAULT_COMPRESSION, Int32(MAX_MEM_LEVEL), Z_DEFAULT_STRATEGY)
            guard
                deflateInit2_(
                    stream, level, Z_DEFLATED, window, memory, strategy, ZLIB_VERSION, streamSize) == Z_OK
            else { return nil }
            defer { deflateEnd(stream) }
            return run(deflate, stream, bytes[...], capacity: Int(deflateBound(stream, UInt(bytes.count))))
        }
    }

    /// - Parameter count: The length of the result. Nothing beyond it is decompressed, however long the input is.
    /// - Returns: `nil` unless the input is what ``compress(_:)`` returns for `count` bytes.
    static func decompress(_ bytes: ArraySlice<UInt8>, count: Int) -> [UInt8]? {
        withStream { stream in
            guard inflateInit2_(stream, window, ZLIB_VERSION, streamSize) == Z_OK else { return nil }
            defer { inflateEnd(stream) }
            // One more byte, so that zlib reports the end of an empty result too.
            let result = run(inflate, stream, bytes, capacity: count + 1)
            return result?.count == count ? result : nil
        }
    }

    /// Keeps the stream in its place, since zlib's own state points to it.
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

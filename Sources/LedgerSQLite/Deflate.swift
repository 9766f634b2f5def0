// SPDX-License-Identifier: Apache-2.0

import CZlib
import Synchronization

/// DEFLATE (RFC 1951), for receipts: one of many purchases says the same again and again.
enum Deflate {
    /// No header and no checksum: the ledger knows a document's digest.
    private static let window = -MAX_WBITS

    private static let compressors = Mutex<[Compressor]>([])
    private static let decompressors = Mutex<[Decompressor]>([])

    /// `nil` where zlib has no memory.
    static func compress(_ bytes: [UInt8]) -> [UInt8]? {
        guard let compressor = compressors.withLock({ $0.popLast() }) ?? Compressor(window: window) else { return nil }
        defer { compressors.withLock { $0.append(compressor) } }
        return compressor.compress(bytes)
    }

    /// - Parameter count: How many bytes come out: no more are made, however long the input would go on.
    /// - Returns: `nil` where it is not what ``compress(_:)`` made of so many bytes.
    static func decompress(_ bytes: ArraySlice<UInt8>, count: Int) -> [UInt8]? {
        guard let decompressor = decompressors.withLock({ $0.popLast() }) ?? Decompressor(window: window) else {
            return nil
        }
        defer { decompressors.withLock { $0.append(decompressor) } }
        return decompressor.decompress(bytes, count: count)
    }
}

/// A stream of zlib's, which is used again and again: making one, with the memory that it needs, takes longer than
/// compressing a payload.
///
/// Sendable though it has state, since whoever uses one has taken it out of the pool.
private class Stream: @unchecked Sendable {
    /// Where it stays: zlib's own state points back at it.
    fileprivate let state = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)

    fileprivate init?(_ start: (UnsafeMutablePointer<z_stream>) -> Int32) {
        state.initialize(to: z_stream())
        guard start(state) == Z_OK else { return nil }
    }

    deinit {
        state.deallocate()
    }

    fileprivate func run(
        on bytes: ArraySlice<UInt8>, capacity: Int, _ step: (UnsafeMutablePointer<z_stream>, Int32) -> Int32
    ) -> [UInt8]? {
        var code = Z_OK
        let result = bytes.withUnsafeBufferPointer { input in
            [UInt8](unsafeUninitializedCapacity: capacity) { output, count in
                state.pointee.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                state.pointee.avail_in = UInt32(input.count)
                state.pointee.next_out = output.baseAddress
                state.pointee.avail_out = UInt32(capacity)
                code = step(state, Z_FINISH)
                count = capacity - Int(state.pointee.avail_out)
            }
        }
        return code == Z_STREAM_END ? result : nil
    }
}

private final class Compressor: Stream, @unchecked Sendable {
    convenience init?(window: Int32) {
        let (level, memory) = (Z_DEFAULT_COMPRESSION, Int32(MAX_MEM_LEVEL))
        let version = (ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        self.init { state in
            deflateInit2_(
                state, level, Z_DEFLATED, window, memory, Z_DEFAULT_STRATEGY, version.0, version.1)
        }
    }

    deinit {
        deflateEnd(state)
    }

    func compress(_ bytes: [UInt8]) -> [UInt8]? {
        guard deflateReset(state) == Z_OK else { return nil }
        return run(on: bytes[...], capacity: Int(deflateBound(state, UInt(bytes.count))), deflate)
    }
}

private final class Decompressor: Stream, @unchecked Sendable {
    convenience init?(window: Int32) {
        self.init { inflateInit2_($0, window, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) }
    }

    deinit {
        inflateEnd(state)
    }

    func decompress(_ bytes: ArraySlice<UInt8>, count: Int) -> [UInt8]? {
        guard inflateReset(state) == Z_OK else { return nil }
        // One more byte, so that the end is seen also where nothing comes out.
        let result = run(on: bytes, capacity: count + 1, inflate)
        return result?.count == count ? result : nil
    }
}

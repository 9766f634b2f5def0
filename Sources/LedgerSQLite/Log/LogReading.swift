// SPDX-License-Identifier: Apache-2.0

// Reads a whole write-ahead log of SQLite to learn whether it is damaged.

extension LogCondition {
    /// Reads a log from its beginning to its end.
    ///
    /// - Parameter read: Reads bytes at an offset into a buffer, and returns the number of bytes read. The number is
    ///   below the buffer's size only at the end of the log.
    init(reading read: (_ offset: Int, _ buffer: UnsafeMutableRawBufferPointer) throws -> Int) rethrows {
        var header = [UInt8](repeating: 0, count: LogHeader.size)
        let count = try header.withUnsafeMutableBytes { try read(0, $0) }
        var probe: UInt8 = 0
        let hasFrames = try withUnsafeMutableBytes(of: &probe) { try read(LogHeader.size, $0) } > 0
        guard count == LogHeader.size, hasFrames else {
            self = .whole
            return
        }
        // SQLite flushes the header before it writes the first frame. If frames follow an invalid header, the header
        // was therefore damaged later, not left incomplete by an interruption.
        guard let header = header.withUnsafeBytes({ LogHeader($0) }) else {
            self = .damaged(LogDamage(frame: nil, transactions: 0))
            return
        }
        var frames = LogFrames(after: header)
        var offset = LogHeader.size
        let size = header.frameSize
        var buffer = [UInt8](repeating: 0, count: size * max(1, Self.bytesAtOnce / size))
        while true {
            let count = try buffer.withUnsafeMutableBytes { try read(offset, $0) } / size * size
            guard count > 0 else { break }
            buffer.withUnsafeBytes { bytes in
                for start in stride(from: 0, to: count, by: size) {
                    frames.add(UnsafeRawBufferPointer(rebasing: bytes[start..<start + size]))
                }
            }
            offset += count
        }
        self = frames.condition
    }

    /// The number of bytes per read: large enough to read a log of 64 MiB in a few hundred calls.
    private static let bytesAtOnce = 256 << 10
}

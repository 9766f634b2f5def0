// SPDX-License-Identifier: Apache-2.0

/// The first 32 bytes of SQLite's write-ahead log, which describe all its frames.
struct LogHeader: Sendable {
    static let size = 32

    let pageSize: Int
    /// Whether checksums read the bytes as big-endian words, rather than little-endian words.
    let isBigEndian: Bool
    /// Two numbers that SQLite changes each time it restarts the log: the first is incremented, the second is random.
    /// Each frame repeats the salts.
    let salts: UInt64
    let checksum: LogChecksum

    /// A frame is a header of 24 bytes and a page.
    var frameSize: Int { LogFrame.headerSize + pageSize }

    /// - Returns: `nil` if SQLite does not accept the header.
    init?(_ bytes: UnsafeRawBufferPointer) {
        let magic = bytes.word(0)
        guard magic == Self.magic || magic == Self.magic | 1 else { return nil }
        isBigEndian = magic & 1 == 1
        pageSize = Int(bytes.word(8))
        guard (512...65536).contains(pageSize), pageSize & (pageSize - 1) == 0 else { return nil }
        salts = bytes.salts(16)
        checksum = LogChecksum(stored: bytes, at: 24)
        var computed = LogChecksum()
        computed.add(UnsafeRawBufferPointer(rebasing: bytes[..<24]), isBigEndian: isBigEndian)
        guard computed == checksum else { return nil }
    }

    private static let magic: UInt32 = 0x377f_0682
}

/// SQLite's checksum of a log. The checksum is cumulative: each frame continues the previous frame's checksum.
struct LogChecksum: Hashable, Sendable {
    private(set) var first: UInt32 = 0
    private(set) var second: UInt32 = 0

    init() {}

    init(stored bytes: UnsafeRawBufferPointer, at offset: Int) {
        first = bytes.word(offset)
        second = bytes.word(offset + 4)
    }

    /// - Parameter bytes: A multiple of 8 bytes.
    mutating func add(_ bytes: UnsafeRawBufferPointer, isBigEndian: Bool) {
        for offset in stride(from: 0, to: bytes.count, by: 8) {
            add(bytes.word(offset, isBigEndian: isBigEndian), bytes.word(offset + 4, isBigEndian: isBigEndian))
        }
    }

    mutating func add(_ word: UInt32, _ next: UInt32) {
        first &+= word &+ second
        second &+= next &+ first
    }
}

extension UnsafeRawBufferPointer {
    func word(_ offset: Int, isBigEndian: Bool = true) -> UInt32 {
        let word = loadUnaligned(fromByteOffset: offset, as: UInt32.self)
        return isBigEndian ? UInt32(bigEndian: word) : UInt32(littleEndian: word)
    }

    fileprivate func salts(_ offset: Int) -> UInt64 {
        UInt64(bigEndian: loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }
}

/// A frame of a log: the content of a page of the database after a transaction, with a header.
struct LogFrame {
    static let headerSize = 24

    private let bytes: UnsafeRawBufferPointer
    private let isBigEndian: Bool

    init(_ bytes: UnsafeRawBufferPointer, isBigEndian: Bool) {
        self.bytes = bytes
        self.isBigEndian = isBigEndian
    }

    var page: UInt32 { bytes.word(0) }
    /// The number of pages of the database after the commit that this frame ends; 0 if the frame ends no commit.
    var databaseSize: UInt32 { bytes.word(4) }
    var salts: UInt64 { bytes.salts(8) }
    var checksum: LogChecksum { LogChecksum(stored: bytes, at: 16) }

    /// The checksum of this frame if the previous frame's checksum is `previous`.
    func checksum(after previous: LogChecksum) -> LogChecksum {
        checksum(after: previous, databaseSize: bytes.word(4, isBigEndian: isBigEndian))
    }

    /// The checksum of this frame with a different database size, given in the byte order of checksums.
    private func checksum(after previous: LogChecksum, databaseSize: UInt32) -> LogChecksum {
        var sum = previous
        sum.add(bytes.word(0, isBigEndian: isBigEndian), databaseSize)
        sum.add(UnsafeRawBufferPointer(rebasing: bytes[Self.headerSize...]), isBigEndian: isBigEndian)
        return sum
    }

    /// The database size with which the frame's checksum would be valid; `nil` if no size fits, because other fields
    /// are damaged too.
    func databaseSizeThatFits(after previous: LogChecksum) -> UInt32? {
        // Checksums are sums, so each increase of the size by one adds a fixed step to each half of the checksum. The
        // two steps are neighbours in Fibonacci's sequence. At least one step is therefore odd, and an odd number has
        // an inverse modulo 2^32.
        let none = checksum(after: previous, databaseSize: 0)
        let one = checksum(after: previous, databaseSize: 1)
        let steps = (one.first &- none.first, one.second &- none.second)
        let distances = (checksum.first &- none.first, checksum.second &- none.second)
        let size =
            steps.0 & 1 == 1 ? distances.0 &* Self.inverse(of: steps.0) : distances.1 &* Self.inverse(of: steps.1)
        guard checksum(after: previous, databaseSize: size) == checksum else { return nil }
        return isBigEndian ? size : size.byteSwapped
    }

    /// The inverse of an odd number modulo 2^32. Each step doubles the number of correct bits, starting from three.
    private static func inverse(of odd: UInt32) -> UInt32 {
        (0..<4).reduce(odd) { inverse, _ in inverse &* (2 &- odd &* inverse) }
    }
}

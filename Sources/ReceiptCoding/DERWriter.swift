// SPDX-License-Identifier: Apache-2.0

/// Writes DER into one buffer, from the end to the beginning. In DER, the length of an element stands before its
/// contents. Written backwards, the contents come first, so their size is known when the length is written. Nested
/// arrays would instead cost an allocation per element.
struct DERWriter {
    private var buffer: [UInt8]
    /// The index of the first written byte.
    private var start: Int

    /// - Parameter capacity: The expected number of bytes. The buffer grows if more bytes are written.
    init(capacity: Int) {
        buffer = [UInt8](repeating: 0, count: capacity)
        start = capacity
    }

    /// The written bytes.
    var bytes: [UInt8] { start == 0 ? buffer : Array(buffer[start...]) }

    /// Writes bytes in front of all previous bytes.
    mutating func write(_ bytes: some Collection<UInt8>) {
        makeRoom(for: bytes.count)
        start -= bytes.count
        buffer.withUnsafeMutableBytes { buffer in
            UnsafeMutableRawBufferPointer(rebasing: buffer[start..<start + bytes.count]).copyBytes(from: bytes)
        }
    }

    /// Writes an element in front of all previous bytes.
    ///
    /// - Parameter content: Writes the parts of the element, the last part first.
    mutating func element(_ tag: UInt8, _ content: (inout DERWriter) -> Void) {
        let end = buffer.count - start
        content(&self)
        let count = buffer.count - start - end
        if count < 0x80 {
            write(byte: UInt8(count))
        } else {
            var rest = count
            var bytes = UInt8(0)
            while rest > 0 {
                write(byte: UInt8(truncatingIfNeeded: rest))
                rest = rest >> 8
                bytes = bytes + 1
            }
            write(byte: 0x80 | bytes)
        }
        write(byte: tag)
    }

    private mutating func write(byte: UInt8) {
        makeRoom(for: 1)
        start -= 1
        buffer[start] = byte
    }

    private mutating func makeRoom(for count: Int) {
        guard count > start else { return }
        let more = max(count - start, buffer.count)
        buffer.insert(contentsOf: repeatElement(0, count: more), at: 0)
        start += more
    }
}

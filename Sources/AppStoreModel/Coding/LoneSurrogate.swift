// SPDX-License-Identifier: Apache-2.0

/// Half of a surrogate pair in a JSON string, such as `\ud800`, in the form in which a `String` can hold it.
///
/// JSON allows it (RFC 8259 section 8.2), but no `String` can contain it. In memory it becomes two scalars: the mark
/// U+FDD0, which Unicode reserves for use inside a program, and one of the private scalars U+10D800 to U+10DFFF. A mark
/// that the document itself contains is doubled, so that no other string takes the same form. ``JSONWriter`` writes
/// both as they were.
enum LoneSurrogate {
    /// The mark, in UTF-8.
    static let mark: [UInt8] = [0xef, 0xb7, 0x90]

    /// The first byte of the mark. Few texts contain it, so readers and writers look for it alone.
    static let firstByte: UInt8 = 0xef

    /// The distance of the private scalars from the surrogates.
    private static let offset: UInt32 = 0x10_0000

    /// The form of a lone surrogate in memory.
    static func encoded(_ unit: UInt32) -> [UInt8] {
        mark + (Unicode.Scalar(offset + unit).flatMap(UTF8.encode) ?? UTF8.encodedReplacementCharacter)
    }

    /// The lone surrogate whose private scalar begins here, after the mark; `nil` if other text follows.
    static func unit(in text: Slice<UnsafeBufferPointer<UInt8>>) -> UInt32? {
        var bytes = text.makeIterator()
        var decoder = UTF8()
        guard case .scalarValue(let scalar) = decoder.decode(&bytes) else { return nil }
        return (offset + 0xd800...offset + 0xdfff).contains(scalar.value) ? scalar.value - offset : nil
    }

    /// The text of these bytes of a document, with marks doubled; `nil` if they are not UTF-8.
    static func text(_ bytes: UnsafeBufferPointer<UInt8>) -> String? {
        guard bytes.contains(firstByte) else { return String(validating: bytes, as: UTF8.self) }
        var doubled: [UInt8] = []
        for byte in bytes { append(byte, to: &doubled) }
        return String(validating: doubled, as: UTF8.self)
    }

    /// Appends a byte of a document, and doubles a mark that it completes.
    static func append(_ byte: UInt8, to bytes: inout [UInt8]) {
        bytes.append(byte)
        if byte == 0x90, bytes.suffix(3).elementsEqual(mark) { bytes += mark }
    }
}

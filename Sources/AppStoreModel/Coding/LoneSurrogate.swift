// SPDX-License-Identifier: Apache-2.0

/// Half of a surrogate pair in a JSON string, such as `\ud800`, in a form allowed in a `String`.
///
/// JSON allows a lone surrogate (RFC 8259 section 8.2), but no `String` can contain a surrogate. In memory a lone
/// surrogate becomes two scalars: the mark U+FDD0, reserved by Unicode for use inside a program, and a private scalar
/// from U+10D800 to U+10DFFF. A mark in the document itself is doubled, so no other string takes the same form.
/// ``JSONWriter`` writes lone surrogates and marks as they were in the document.
enum LoneSurrogate {
    /// The mark, in UTF-8.
    static let mark: [UInt8] = [0xef, 0xb7, 0x90]

    /// The value of the mark. A literal cannot have it.
    static let markValue: UInt32 = 0xfdd0

    /// The first byte of the mark. Few texts contain this byte, so readers and writers search for this byte first.
    static let firstByte: UInt8 = 0xef

    /// The distance of the private scalars from the surrogates.
    private static let offset: UInt32 = 0x10_0000

    private static let privateScalars = offset + 0xd800...offset + 0xdfff

    /// The form of a lone surrogate in memory.
    static func encoded(_ unit: UInt32) -> [UInt8] {
        mark + (Unicode.Scalar(offset + unit).flatMap(UTF8.encode) ?? UTF8.encodedReplacementCharacter)
    }

    /// The lone surrogate whose private scalar begins `text`, the text after a mark. `nil` if `text` begins with any
    /// other scalar.
    static func unit(in text: Slice<UnsafeBufferPointer<UInt8>>) -> UInt32? {
        var bytes = text.makeIterator()
        var decoder = UTF8()
        guard case .scalarValue(let scalar) = decoder.decode(&bytes) else { return nil }
        return privateScalars.contains(scalar.value) ? scalar.value - offset : nil
    }

    /// The lone surrogate whose form in memory begins `text`; `nil` if `text` begins with any other character.
    static func unit(at text: Substring.UnicodeScalarView) -> UInt32? {
        guard text.first?.value == markValue, let scalar = text.dropFirst().first else { return nil }
        return privateScalars.contains(scalar.value) ? scalar.value - offset : nil
    }

    /// The text of a document's bytes, with marks doubled, or `nil` if the bytes are not UTF-8.
    static func text(_ bytes: UnsafeBufferPointer<UInt8>) -> String? {
        guard bytes.contains(firstByte) else { return String(validating: bytes, as: UTF8.self) }
        var doubled: [UInt8] = []
        for byte in bytes { append(byte, to: &doubled) }
        return String(validating: doubled, as: UTF8.self)
    }

    /// Appends a byte of a document, and doubles the mark if the byte completes a mark.
    static func append(_ byte: UInt8, to bytes: inout [UInt8]) {
        bytes.append(byte)
        if byte == 0x90, bytes.suffix(3).elementsEqual(mark) { bytes += mark }
    }
}

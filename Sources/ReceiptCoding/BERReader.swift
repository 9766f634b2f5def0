// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The tag bytes that occur in receipts: identifier octets of ITU-T X.690 section 8.1.2.
enum BERTag {
    static let integer: UInt8 = 0x02
    static let octetString: UInt8 = 0x04
    static let null: UInt8 = 0x05
    static let objectIdentifier: UInt8 = 0x06
    static let utf8String: UInt8 = 0x0c
    static let ia5String: UInt8 = 0x16
    static let constructedOctetString: UInt8 = 0x24
    static let sequence: UInt8 = 0x30
    static let set: UInt8 = 0x31
    static let context0: UInt8 = 0xa0
    static let context1: UInt8 = 0xa1

    static let constructedBit: UInt8 = 0x20
}

/// An element of BER: its tag byte, and the range of its contents in the given bytes.
struct BERElement {
    let tag: UInt8
    /// The index of the tag byte.
    let start: Int
    let content: Range<Int>
    /// The index after the element, including the two bytes that end an indefinite length.
    let end: Int
}

/// Reads the elements of one level of BER, of definite and indefinite length, one after the other.
///
/// The reader is a cursor and builds no tree. A receipt with 187 purchases has 25,000 elements in nested OCTET STRINGs,
/// and only some numbers and texts are needed. Every returned index is inside the given bytes, whatever their content.
///
/// Pass the same bytes to every call. The cursor does not store the bytes, because each stored reference costs a retain
/// and a release, and there are as many cursors as elements.
struct BERReader {
    private(set) var position: Int
    private let end: Int

    init(_ bytes: ArraySlice<UInt8>) {
        position = bytes.startIndex
        end = bytes.endIndex
    }

    /// Reads the contents of `element`.
    init(in element: BERElement) {
        position = element.content.lowerBound
        end = element.content.upperBound
    }

    private init(from start: Int, to end: Int) {
        position = start
        self.end = end
    }

    var isAtEnd: Bool { position >= end }

    /// The tag byte of the next element, or `nil` at the end.
    func nextTag(in bytes: ArraySlice<UInt8>) -> UInt8? { position < end ? bytes[position] : nil }

    /// Reads the next element of any tag.
    mutating func next(in bytes: ArraySlice<UInt8>) throws(ReceiptDecodingError) -> BERElement {
        let element = try element(at: position, in: bytes, depth: 0)
        position = element.end
        return element
    }

    /// Reads the next element. Throws if the element's tag byte is not `tag`. The error calls the element `name`.
    mutating func next(
        _ tag: UInt8, _ name: StaticString, in bytes: ArraySlice<UInt8>
    ) throws(ReceiptDecodingError) -> BERElement {
        guard position < end else { throw error("The \(name) is missing", in: bytes) }
        guard bytes[position] == tag else {
            throw error("Expected \(name) (tag \(hex(tag))), found tag \(hex(bytes[position]))", in: bytes)
        }
        return try next(in: bytes)
    }

    /// Reads the next element as a whole number of at most 64 bits.
    mutating func integer(_ name: StaticString, in bytes: ArraySlice<UInt8>) throws(ReceiptDecodingError) -> Int64 {
        let element = try next(BERTag.integer, name, in: bytes)
        guard let number = Self.integer(bytes, element.content) else {
            throw error("The \(name) is no whole number of 64 bits", in: bytes)
        }
        return number
    }

    /// Reads the next element as an OCTET STRING. Joins the chunks of a constructed OCTET STRING.
    mutating func octetString(
        _ name: StaticString, in bytes: ArraySlice<UInt8>
    ) throws(ReceiptDecodingError) -> ArraySlice<UInt8> {
        guard nextTag(in: bytes) == BERTag.constructedOctetString else {
            return bytes[try next(BERTag.octetString, name, in: bytes).content]
        }
        var joined: [UInt8] = []
        try appendChunks(to: &joined, name, in: bytes, depth: 0)
        return joined[...]
    }

    /// Appends the chunks of the next element, a constructed OCTET STRING. Chunks may be nested (X.690 section 8.7.3).
    /// The end of an indefinite length is found while reading the chunks, so that each byte is read only once, however
    /// deep the nesting.
    private mutating func appendChunks(
        to joined: inout [UInt8], _ name: StaticString, in bytes: ArraySlice<UInt8>, depth: Int
    ) throws(ReceiptDecodingError) {
        guard depth < Limits.indefiniteLengths else { throw nestedTooDeep(in: bytes) }
        let header = try header(at: position, in: bytes)
        var chunks = BERReader(from: header.content, to: header.length.map { header.content + $0 } ?? end)
        while header.length == nil ? !chunks.takeEndOfContents(in: bytes) : !chunks.isAtEnd {
            if chunks.nextTag(in: bytes) == BERTag.constructedOctetString {
                try chunks.appendChunks(to: &joined, name, in: bytes, depth: depth + 1)
            } else {
                joined.append(contentsOf: bytes[try chunks.next(BERTag.octetString, name, in: bytes).content])
            }
        }
        position = chunks.position
    }

    /// Skips the two bytes that end contents of indefinite length (X.690 section 8.1.5), if they are next.
    private mutating func takeEndOfContents(in bytes: ArraySlice<UInt8>) -> Bool {
        guard end - position >= 2, bytes[position] == 0, bytes[position + 1] == 0 else { return false }
        position += 2
        return true
    }

    /// A number in two's complement, big-endian (X.690 section 8.3); `nil` if the contents are empty or longer than 8
    /// bytes.
    private static func integer(_ bytes: ArraySlice<UInt8>, _ content: Range<Int>) -> Int64? {
        guard !content.isEmpty, content.count <= 8 else { return nil }
        var value: Int64 = bytes[content.lowerBound] & 0x80 == 0 ? 0 : -1
        for index in content { value = value << 8 | Int64(bytes[index]) }
        return value
    }

    private func error(_ message: String, in bytes: ArraySlice<UInt8>) -> ReceiptDecodingError {
        ReceiptDecodingError(message, offset: position - bytes.startIndex)
    }

    private func nestedTooDeep(in bytes: ArraySlice<UInt8>) -> ReceiptDecodingError {
        error("Nested deeper than \(Limits.indefiniteLengths) levels", in: bytes)
    }

    private func hex(_ byte: UInt8) -> String {
        "0x" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }

    /// The tag, the start of the contents, and their length; the length is `nil` if indefinite. Contents of a definite
    /// length end within the reader's range.
    private struct Header {
        let tag: UInt8
        let content: Int
        let length: Int?
    }

    private func header(at start: Int, in bytes: ArraySlice<UInt8>) throws(ReceiptDecodingError) -> Header {
        guard end - start >= 2 else { throw error("The data end early", in: bytes) }
        let tag = bytes[start]
        guard tag & 0x1f != 0x1f else { throw error("Tag numbers above 30 do not occur in receipts", in: bytes) }
        let first = bytes[start + 1]
        guard first != 0x80 else {
            guard tag & BERTag.constructedBit != 0 else {
                throw error("A primitive element of indefinite length", in: bytes)
            }
            return Header(tag: tag, content: start + 2, length: nil)
        }
        var content = start + 2
        var length = Int(first)
        if first > 0x80 {
            let count = Int(first & 0x7f)
            guard count <= 4, end - content >= count else { throw error("A length is cut off or too long", in: bytes) }
            length = 0
            for index in content..<content + count { length = length << 8 | Int(bytes[index]) }
            content += count
        }
        guard length <= end - content else {
            throw error("An element claims \(length) bytes, but \(end - content) are left", in: bytes)
        }
        return Header(tag: tag, content: content, length: length)
    }

    private func element(
        at start: Int, in bytes: ArraySlice<UInt8>, depth: Int
    ) throws(ReceiptDecodingError) -> BERElement {
        let header = try header(at: start, in: bytes)
        guard let length = header.length else {
            let end = try endOfContents(from: header.content, in: bytes, depth: depth)
            return BERElement(tag: header.tag, start: start, content: header.content..<end, end: end + 2)
        }
        let end = header.content + length
        return BERElement(tag: header.tag, start: start, content: header.content..<end, end: end)
    }

    /// Finds the two bytes that end the contents (X.690 section 8.1.5) by reading the elements of the contents.
    private func endOfContents(
        from start: Int, in bytes: ArraySlice<UInt8>, depth: Int
    ) throws(ReceiptDecodingError) -> Int {
        guard depth < Limits.indefiniteLengths else { throw nestedTooDeep(in: bytes) }
        var position = start
        while true {
            guard end - position >= 2 else {
                throw error("An element of indefinite length does not end", in: bytes)
            }
            if bytes[position] == 0, bytes[position + 1] == 0 { return position }
            position = try element(at: position, in: bytes, depth: depth + 1).end
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The identifier octets (ITU-T X.690 section 8.1.2) that receipts are made of.
enum BERTag {
    static let integer: UInt8 = 0x02
    static let octetString: UInt8 = 0x04
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

/// One element of BER: an identifier octet, and where its contents lie in the bytes that were read.
struct BERElement {
    let tag: UInt8
    /// Of the first identifier octet.
    let start: Int
    let content: Range<Int>
    /// After the contents, and after the end-of-contents octets of an indefinite length.
    let end: Int
}

/// Reads the elements of one level of BER, of definite and indefinite length, one after the other.
///
/// A cursor instead of a tree: a receipt with 187 purchases has 25,000 elements inside octet strings inside octet
/// strings, and all that is wanted of them is a few numbers and texts. It copies nothing and allocates nothing. Every
/// index that it hands out lies inside of the bytes that it was given, whatever these say.
struct BERReader {
    let bytes: ArraySlice<UInt8>
    private(set) var position: Int
    private let end: Int

    init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
        position = bytes.startIndex
        end = bytes.endIndex
    }

    /// Reads the contents of `element`, which this or another reader of the same bytes found.
    init(_ bytes: ArraySlice<UInt8>, in element: BERElement) {
        self.bytes = bytes
        position = element.content.lowerBound
        end = element.content.upperBound
    }

    var isAtEnd: Bool { position >= end }

    /// The identifier octet of the next element, or `nil` at the end.
    var nextTag: UInt8? { position < end ? bytes[position] : nil }

    /// Reads the next element, whatever it is.
    mutating func next() throws(ReceiptDecodingError) -> BERElement {
        let element = try element(at: position, depth: 0)
        position = element.end
        return element
    }

    /// Reads the next element, which must have the identifier octet `tag`; `name` says what it would have been.
    mutating func next(_ tag: UInt8, _ name: StaticString) throws(ReceiptDecodingError) -> BERElement {
        guard position < end else { throw error("The \(name) is missing") }
        guard bytes[position] == tag else {
            throw error("Expected \(name) (tag \(hex(tag))), found tag \(hex(bytes[position]))")
        }
        return try next()
    }

    /// Reads the next element as a whole number of at most 64 bits.
    mutating func integer(_ name: StaticString) throws(ReceiptDecodingError) -> Int64 {
        let element = try next(BERTag.integer, name)
        guard let number = integer(in: element.content) else {
            throw error("The \(name) is no whole number of 64 bits")
        }
        return number
    }

    /// Reads the next element as an octet string: primitive, or in chunks that are put together.
    mutating func octetString(_ name: StaticString) throws(ReceiptDecodingError) -> ArraySlice<UInt8> {
        guard nextTag == BERTag.constructedOctetString else {
            return bytes[try next(BERTag.octetString, name).content]
        }
        var octets: [UInt8] = []
        try appendChunks(to: &octets, name, depth: 0)
        return octets[...]
    }

    /// Appends the chunks of the next element, which is a constructed octet string; chunks may have chunks in their turn
    /// (X.690 section 8.7.3).
    private mutating func appendChunks(
        to octets: inout [UInt8], _ name: StaticString, depth: Int
    ) throws(ReceiptDecodingError) {
        guard depth < Limits.indefiniteLengths else {
            throw error("Nested deeper than \(Limits.indefiniteLengths) levels")
        }
        var chunks = BERReader(bytes, in: try next())
        while !chunks.isAtEnd {
            if chunks.nextTag == BERTag.constructedOctetString {
                try chunks.appendChunks(to: &octets, name, depth: depth + 1)
            } else {
                octets.append(contentsOf: bytes[try chunks.next(BERTag.octetString, name).content])
            }
        }
    }

    /// Two's complement, big-endian (X.690 section 8.3), or `nil` where it is empty or longer than 8 bytes.
    private func integer(in content: Range<Int>) -> Int64? {
        guard !content.isEmpty, content.count <= 8 else { return nil }
        var value: Int64 = bytes[content.lowerBound] & 0x80 == 0 ? 0 : -1
        for index in content { value = value << 8 | Int64(bytes[index]) }
        return value
    }

    private func error(_ message: String) -> ReceiptDecodingError {
        ReceiptDecodingError(message, offset: position - bytes.startIndex)
    }

    private func hex(_ byte: UInt8) -> String {
        "0x" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }

    private func element(at start: Int, depth: Int) throws(ReceiptDecodingError) -> BERElement {
        guard end - start >= 2 else { throw error("The data end early") }
        let tag = bytes[start]
        guard tag & 0x1f != 0x1f else { throw error("Tag numbers above 30 do not occur in receipts") }
        let first = bytes[start + 1]
        if first < 0x80 {
            return try element(tag, start, content: start + 2, length: Int(first))
        }
        guard first != 0x80 else { return try indefiniteElement(tag, start, depth: depth) }
        let count = Int(first & 0x7f)
        guard count <= 4, end - start - 2 >= count else { throw error("A length is cut off or absurd") }
        var length = 0
        for index in start + 2..<start + 2 + count { length = length << 8 | Int(bytes[index]) }
        return try element(tag, start, content: start + 2 + count, length: length)
    }

    private func element(
        _ tag: UInt8, _ start: Int, content: Int, length: Int
    ) throws(ReceiptDecodingError) -> BERElement {
        guard length <= end - content else {
            throw error("An element claims \(length) bytes where \(end - content) are left")
        }
        return BERElement(tag: tag, start: start, content: content..<content + length, end: content + length)
    }

    /// Finds the end-of-contents octets (X.690 section 8.1.5) by a walk over the elements before them.
    private func indefiniteElement(
        _ tag: UInt8, _ start: Int, depth: Int
    ) throws(ReceiptDecodingError) -> BERElement {
        guard tag & BERTag.constructedBit != 0 else { throw error("A primitive element without a length") }
        guard depth < Limits.indefiniteLengths else {
            throw error("Nested deeper than \(Limits.indefiniteLengths) levels")
        }
        var position = start + 2
        while true {
            guard end - position >= 2 else { throw error("An element of indefinite length does not end") }
            if bytes[position] == 0, bytes[position + 1] == 0 { break }
            position = try element(at: position, depth: depth + 1).end
        }
        return BERElement(tag: tag, start: start, content: start + 2..<position, end: position + 2)
    }
}

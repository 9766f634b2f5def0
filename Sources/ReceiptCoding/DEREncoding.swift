// SPDX-License-Identifier: Apache-2.0

/// Writes DER (ITU-T X.690 section 10): definite lengths in the fewest bytes.
package enum DEREncoding {
    /// An element with the tag byte `tag`.
    package static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        header(tag, count: content.count) + content
    }

    /// An element in pieces: its header, then the pieces of its contents. ``concatenation(_:)`` then copies large
    /// contents only once.
    static func element(_ tag: UInt8, of pieces: [ArraySlice<UInt8>]) -> [ArraySlice<UInt8>] {
        [header(tag, count: pieces.reduce(0) { $0 + $1.count })[...]] + pieces
    }

    private static func header(_ tag: UInt8, count: Int) -> [UInt8] {
        guard count >= 0x80 else { return [tag, UInt8(count)] }
        let length = bigEndian(Int64(count)).drop { $0 == 0 }
        return [tag, 0x80 | UInt8(length.count)] + length
    }

    /// The pieces joined. Each piece is copied as a whole, whereas `joined()` would yield one byte at a time.
    package static func concatenation(_ pieces: some Collection<some Collection<UInt8>>) -> [UInt8] {
        var whole: [UInt8] = []
        whole.reserveCapacity(pieces.reduce(0) { $0 + $1.count })
        for piece in pieces { whole += piece }
        return whole
    }

    /// A SEQUENCE of these elements.
    package static func sequence(_ elements: [UInt8]...) -> [UInt8] {
        element(BERTag.sequence, concatenation(elements))
    }

    /// A SET of these elements, in this order.
    package static func set(_ elements: [UInt8]...) -> [UInt8] {
        element(BERTag.set, concatenation(elements))
    }

    /// A SET OF these elements, in the order of their bytes (X.690 section 11.6).
    package static func setOf(_ elements: [[UInt8]]) -> [UInt8] {
        element(BERTag.set, Array(elements.sorted { $0.lexicographicallyPrecedes($1) }.joined()))
    }

    /// An EXPLICIT, or a constructed IMPLICIT, tag [0] around `content`.
    package static func context0(_ content: [UInt8]) -> [UInt8] {
        element(BERTag.context0, content)
    }

    /// An INTEGER.
    package static func integer(_ number: Int64) -> [UInt8] {
        var bytes = bigEndian(number)[...]
        // The first nine bits must not be all equal (X.690 section 8.3.2).
        while bytes.count > 1, bytes.first == (bytes.dropFirst().first.map { $0 & 0x80 } == 0 ? 0 : 0xff) {
            bytes.removeFirst()
        }
        return element(BERTag.integer, Array(bytes))
    }

    /// An OCTET STRING.
    package static func octetString(_ bytes: some Sequence<UInt8>) -> [UInt8] {
        element(BERTag.octetString, Array(bytes))
    }

    /// A UTF8String.
    package static func utf8String(_ text: String) -> [UInt8] { element(BERTag.utf8String, Array(text.utf8)) }

    /// An IA5String; `text` must be ASCII.
    package static func ia5String(_ text: String) -> [UInt8] { element(BERTag.ia5String, Array(text.utf8)) }

    /// An OBJECT IDENTIFIER.
    package static func objectIdentifier(_ identifier: OID) -> [UInt8] {
        element(BERTag.objectIdentifier, identifier.bytes)
    }

    private static func bigEndian(_ number: Int64) -> [UInt8] {
        stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> Int64($0)) }
    }
}

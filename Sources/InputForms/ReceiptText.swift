// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ReceiptCoding

/// Recognises app receipts and old transaction receipts, as bytes and in base64.
enum ReceiptText {
    /// The document consisting of these bytes, or `nil` if the bytes are not a document.
    ///
    /// - Throws: `receiptCut` if the bytes are the beginning of a receipt, `severalDocuments` if another
    ///   document seems to follow the receipt.
    static func document(_ bytes: ArraySlice<UInt8>) throws(InputFault) -> InputDocument? {
        switch bytes.first {
        case 0x30: try receipt(bytes).map { .receipt(Array($0)) }
        case UInt8(ascii: "{"): isOld(bytes) ? .transactionReceipt(Array(bytes)) : nil
        default: nil
        }
    }

    /// The document whose base64 is the text, and the steps by which the text differs from standard base64, such as
    /// white space or missing padding. `nil` if the text is not a document in base64.
    static func document(
        inBase64 text: ArraySlice<UInt8>, _ characters: TextCharacters
    ) throws(InputFault) -> (InputDocument, [InputStep])? {
        guard characters.isDisjoint(with: [.dot, .other]) else { return nil }
        if characters.isSubset(of: [.alphanumeric, .standard, .padding]), let bytes = Base64.decode(text) {
            return try document(bytes[...]).map { ($0, []) }
        }
        if characters.contains(.blank), let found = documentWithBlanks(text, characters) { return found }
        guard let bytes = text.looseBase64, let found = try document(bytes[...]) else { return nil }
        return (found, spelling(text, characters))
    }

    /// Tries each blank as a `+`. A blank may also just separate lines, but a receipt decodes with only one of the two
    /// meanings.
    private static func documentWithBlanks(
        _ text: ArraySlice<UInt8>, _ characters: TextCharacters
    ) -> (InputDocument, [InputStep])? {
        let text = text.map { $0 == UInt8(ascii: " ") ? UInt8(ascii: "+") : $0 }[...]
        // A receipt that is cut off does not decode here. The caller then ignores the blanks, recognises the beginning
        // of a receipt, and reports the cut.
        guard let bytes = text.looseBase64, SignedReceipt(validating: bytes) != nil else { return nil }
        return (.receipt(bytes), [.blanksForPlus] + spelling(text, characters.subtracting(.blank)))
    }

    private static func spelling(_ text: ArraySlice<UInt8>, _ characters: TextCharacters) -> [InputStep] {
        var steps: [InputStep] = []
        if !characters.isDisjoint(with: .whiteSpace) { steps.append(.whiteSpace) }
        if characters.contains(.url) { steps.append(.base64url) }
        if text.count(where: { !$0.isWhiteSpace }) % 4 != 0 { steps.append(.padding) }
        return steps
    }

    /// Whether a text is base64 of a receipt without the first character.
    static func isWithoutFirstCharacter(_ text: ArraySlice<UInt8>) -> Bool {
        let start = text.prefix(40)
        let whole = [UInt8(ascii: "M")] + start
        return whole[...].looseBase64.map { Head($0[...])?.isReceipt == true } ?? false
    }

    /// Whether a text is a receipt's bytes decoded as Latin-1, as Windows-1252, or as UTF-8 with replacement
    /// characters. Each decoding leaves a recognisable trace of the object identifier in the first bytes.
    static func isReadAsText(_ text: ArraySlice<UInt8>) -> Bool {
        guard text.first == UInt8(ascii: "0"), let second = text.dropFirst().first, second >= 0x80 else { return false }
        let start = text.prefix(24)
        let traces: [[UInt8]] = [
            [0x06, 0x09, 0x2a], [0x2a, 0xc2, 0x86, 0x48], [0x2a, 0xe2, 0x80, 0xa0, 0x48],
            [0x2a, 0xef, 0xbf, 0xbd, 0x48],
        ]
        return traces.contains { start.includes($0) }
    }
}

extension ReceiptText {
    private static func isOld(_ bytes: ArraySlice<UInt8>) -> Bool {
        TransactionReceipt(validating: bytes) != nil
    }

    /// The bytes of a receipt, without what follows the receipt. `nil` if the bytes are not a receipt.
    private static func receipt(_ bytes: ArraySlice<UInt8>) throws(InputFault) -> ArraySlice<UInt8>? {
        guard let head = Head(bytes), head.isReceipt else {
            // The first elements may be encoded in a way that `Head` does not recognise, so decoding decides.
            return SignedReceipt(validating: bytes) == nil ? nil : bytes
        }
        guard let length = head.length else {
            // Contents of indefinite length end with two zero bytes. If more bytes follow, decoding decides.
            let text = bytes.trimmingWhiteSpace
            if text.ends(with: "\0\0") { return text }
            guard SignedReceipt(validating: bytes) != nil else { throw .receiptCut(bytes.count, of: nil) }
            return bytes
        }
        guard length <= bytes.count else { throw .receiptCut(bytes.count, of: length) }
        // Bytes after a receipt are ignored, as by Apple's verifyReceipt, but a second document must not be dropped
        // silently: a receipt, a token, or an old transaction receipt.
        let next = bytes.dropFirst(length).trimmingWhiteSpace.first
        guard ![0x30, UInt8(ascii: "e"), UInt8(ascii: "{")].contains(next) else { throw .severalDocuments }
        return bytes.prefix(length)
    }

    /// The first bytes of a receipt: SEQUENCE, its length, and the object identifier of `signedData`.
    private struct Head {
        /// The number of bytes of the whole receipt, or `nil` if the length is indefinite.
        let length: Int?
        let isReceipt: Bool

        private static let signedData: [UInt8] = [
            0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x02,
        ]

        /// - Returns: `nil` if the bytes do not begin with a SEQUENCE, or if its length takes more than four bytes.
        init?(_ bytes: ArraySlice<UInt8>) {
            guard bytes.first == 0x30, let first = bytes.dropFirst().first else { return nil }
            let digits = first > 0x80 ? Int(first & 0x7f) : 0
            guard digits <= 4, bytes.count >= 2 + digits else { return nil }
            let value = bytes.dropFirst(2).prefix(digits).reduce(0) { $0 << 8 | Int($1) }
            length = first == 0x80 ? nil : 2 + digits + (first < 0x80 ? Int(first) : value)
            isReceipt = bytes.dropFirst(2 + digits).starts(with: Self.signedData)
        }
    }
}

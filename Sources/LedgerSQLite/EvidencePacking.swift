// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ReceiptCoding

/// A document taken apart to be kept in less room: the pieces of it that also stand in others are kept by themselves, once,
/// and what is left is compressed.
///
/// Of a token the header is such a piece, which holds the same three certificates in every token of a signer, and so are
/// the tokens in its payload. Of a receipt it is the certificates.
struct Packing {
    /// The first octet of what is kept. A number never gets another meaning.
    enum Form: UInt8 {
        /// The document itself follows.
        case plain = 0
        /// Signature, pieces and payload of a compact JWS follow. The first piece is its header, in base64url.
        case token = 1
        /// Pieces, and what stands around them.
        case text = 2
    }

    /// What stands in other documents too.
    struct Piece {
        /// Where in the packed text it was.
        var range: Range<Int>
        var bytes: ArraySlice<UInt8>
    }

    private let form: Form
    private let signature: [UInt8]
    /// In the order in which they stand in `text`.
    let pieces: [Piece]
    /// What the pieces were cut from.
    private let text: [UInt8]
}

// MARK: - Taking apart

extension Packing {
    /// Shorter tokens and certificates stay where they are: a part of its own costs some 40 bytes.
    private static let shortestPiece = 256

    /// `nil` for what is neither token nor receipt.
    ///
    /// - Parameter isPart: Whether a token inside is kept as a part.
    init?(_ document: ArraySlice<UInt8>, cutting isPart: (ArraySlice<UInt8>) -> Bool) {
        guard document.count <= Limits.receipt else { return nil }
        if let token = Packing(token: document, isPart) { self = token } else { self.init(receipt: document) }
    }

    private init?(token document: ArraySlice<UInt8>, _ isPart: (ArraySlice<UInt8>) -> Bool) {
        guard let parts = Self.parts(of: document), let payload = Base64.decodeURL(parts[1]),
            let signature = Base64.decodeURL(parts[2])
        else { return nil }
        form = .token
        self.signature = signature
        text = payload
        let tokens = Self.tokens(in: payload).filter { isPart(payload[$0]) }
        pieces = [Piece(range: 0..<0, bytes: parts[0])] + tokens.map { Piece(range: $0, bytes: payload[$0]) }
    }

    private init?(receipt document: ArraySlice<UInt8>) {
        let document = Array(document)
        guard let certificates = try? SignedReceipt(decoding: document).certificates else { return nil }
        form = .text
        signature = []
        text = document
        pieces = certificates.filter { $0.count >= Self.shortestPiece }.map { slice in
            Piece(range: slice.startIndex..<slice.endIndex, bytes: slice)
        }
    }

    /// What stands before, between and behind two dots; `nil` where there are not just two.
    private static func parts(of token: ArraySlice<UInt8>) -> [ArraySlice<UInt8>]? {
        var parts: [ArraySlice<UInt8>] = []
        var rest = token
        while parts.count < 3, let dot = rest.place(of: UInt8(ascii: ".")) {
            parts.append(rest[..<dot])
            rest = rest[(dot + 1)...]
        }
        return parts.count == 2 ? parts + [rest] : nil
    }

    /// Where whole strings look like tokens: letters of base64url with two dots among them. Whether this is JSON does not
    /// matter, as every piece comes back where it was.
    private static func tokens(in text: [UInt8]) -> [Range<Int>] {
        var found: [Range<Int>] = []
        var rest = text[...]
        var start: Int?
        while let quote = rest.place(of: UInt8(ascii: "\"")) {
            if let start, quote - start >= shortestPiece, isToken(text[start..<quote]) { found.append(start..<quote) }
            start = quote + 1
            rest = text[(quote + 1)...]
        }
        return found
    }

    private static func isToken(_ text: ArraySlice<UInt8>) -> Bool {
        guard let parts = parts(of: text) else { return false }
        // One look at the global, which is not free.
        let isLetter = isLetter
        return isLetter.withUnsafeBufferPointer { isLetter in
            parts.allSatisfy { part in part.withUnsafeBufferPointer { $0.allSatisfy { isLetter[Int($0)] } } }
        }
    }

    /// Of base64url.
    private static let isLetter = (UInt8.min...UInt8.max).map { byte in
        byte.isLetterOrDigit || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }
}

// MARK: - Writing

extension Packing {
    static func plain(_ document: ArraySlice<UInt8>) -> [UInt8] { [Form.plain.rawValue] + document }

    /// What is kept of the document; `nil` where there is no memory to compress it.
    ///
    /// - Parameter numbers: Under which each piece is kept.
    func packed(_ numbers: [Int64]) -> [UInt8]? {
        var rest: [UInt8] = []
        var packed = [form.rawValue]
        packed.append(count: signature.count)
        packed += signature
        packed.append(count: pieces.count)
        var end = 0
        for (piece, number) in zip(pieces, numbers) {
            packed.append(count: piece.range.lowerBound - end)
            packed.append(count: Int(number))
            rest += text[end..<piece.range.lowerBound]
            end = piece.range.upperBound
        }
        rest += text[end...]
        guard let compressed = Deflate.compress(rest) else { return nil }
        packed.append(count: rest.count)
        return packed + compressed
    }
}

extension UInt8 {
    fileprivate var isLetterOrDigit: Bool {
        switch self {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: false
        }
    }
}

extension [UInt8] {
    /// A count in groups of seven bits, the lowest first.
    fileprivate mutating func append(count: Int) {
        var rest = UInt(bitPattern: count)
        while rest > 0x7f {
            append(UInt8(rest & 0x7f) | 0x80)
            rest >>= 7
        }
        append(UInt8(rest))
    }
}

// MARK: - Reading

extension Packing {
    /// Puts a document together again.
    ///
    /// - Parameter piece: The piece that is kept under a number.
    /// - Throws: What `piece` throws, and ``LedgerStorageError`` where these are not the bytes that were kept.
    static func unpack(_ packed: [UInt8], piece: (Int64) throws -> [UInt8]) throws -> [UInt8] {
        guard let first = packed.first, let form = Form(rawValue: first) else { throw PackingReader.damaged }
        guard form != .plain else { return Array(packed.dropFirst()) }
        var reader = PackingReader(packed.dropFirst())
        let signature = try reader.bytes(try reader.count())
        let pieces = try reader.pieces()
        let rest = try reader.rest()
        guard form == .token else { return try join(rest, pieces[...], piece) }
        guard let header = pieces.first else { throw PackingReader.damaged }
        let payload = try join(rest, pieces.dropFirst(), piece)
        let dot = [UInt8(ascii: ".")]
        return try piece(header.number) + dot + Base64.encodeURL(payload) + dot + Base64.encodeURL(signature)
    }

    private static func join(
        _ rest: [UInt8], _ pieces: ArraySlice<(gap: Int, number: Int64)>, _ piece: (Int64) throws -> [UInt8]
    ) throws -> [UInt8] {
        var text: [UInt8] = []
        var position = 0
        for (gap, number) in pieces {
            guard gap <= rest.count - position else { throw PackingReader.damaged }
            text += rest[position..<position + gap]
            position += gap
            text += try piece(number)
            guard text.count <= Limits.receipt else { throw PackingReader.damaged }
        }
        return text + rest[position...]
    }
}

/// A cursor over what was packed.
private struct PackingReader {
    private var bytes: ArraySlice<UInt8>

    static let damaged = SQLiteErrors.damaged("A document in the ledger cannot be put together")

    init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
    }

    mutating func count() throws -> Int {
        var value: UInt = 0
        for shift in stride(from: UInt(0), to: 63, by: 7) {
            guard let byte = bytes.popFirst() else { break }
            value |= UInt(byte & 0x7f) << shift
            if byte < 0x80 { return Int(value) }
        }
        throw Self.damaged
    }

    mutating func bytes(_ count: Int) throws -> ArraySlice<UInt8> {
        guard count <= bytes.count else { throw Self.damaged }
        defer { bytes = bytes.dropFirst(count) }
        return bytes.prefix(count)
    }

    mutating func pieces() throws -> [(gap: Int, number: Int64)] {
        var pieces: [(gap: Int, number: Int64)] = []
        let count = try count()
        // Each takes two bytes at least.
        guard count <= bytes.count / 2 else { throw Self.damaged }
        for _ in 0..<count { pieces.append((try self.count(), Int64(try self.count()))) }
        return pieces
    }

    /// What is left of the document without its pieces.
    mutating func rest() throws -> [UInt8] {
        let count = try count()
        guard count <= Limits.receipt, let rest = Deflate.decompress(bytes, count: count) else { throw Self.damaged }
        return rest
    }
}

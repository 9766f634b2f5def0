// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import ReceiptCoding

/// A document taken apart to be kept in less room: the pieces of it that also stand in others are kept by themselves, once,
/// and what is left of a receipt is compressed.
///
/// Of a token the header is such a piece, which holds the same three certificates in every token of a signer, and so are
/// the tokens in its payload. Of a receipt it is the certificates.
struct Packing: Sendable {
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
    struct Piece: Sendable {
        /// Where in the packed text it was.
        var range: Range<Int>
        var bytes: ArraySlice<UInt8>
    }

    private let form: Form
    private let signature: [UInt8]
    /// In the order in which they stand in the text that they were cut from.
    let pieces: [Piece]
    /// How much is left of the text.
    private let count: Int
    /// What is left of it.
    private let kept: [UInt8]

    /// The pieces that are kept as such: a header, or certificates.
    var shared: ArraySlice<Piece> { form == .token ? pieces.prefix(1) : pieces[...] }

    /// The pieces behind them that are documents: tokens from the payload.
    var tokens: ArraySlice<Piece> { form == .token ? pieces.dropFirst() : [] }
}

// MARK: - Taking apart

extension Packing {
    /// The packings of documents that may be stored soon, each after the tokens in it.
    static func packings(of documents: [Evidence]) -> [EvidenceID: Packing] {
        var packings: [EvidenceID: Packing] = [:]
        for document in documents {
            packings[document.id] = Packing(document.document, document.jws) { token in
                document.parts.contains { token.isSame(as: $0.document[...]) }
            }
        }
        return packings
    }

    /// Shorter tokens and certificates stay where they are: a row of its own costs some 40 bytes.
    private static let shortestPiece = 256

    /// `nil` for what is neither token nor receipt, or does not come back byte for byte from what would be kept of it.
    ///
    /// - Parameters:
    ///   - jws: Its parts, where they are known.
    ///   - isDocument: Whether a token inside is a document of its own.
    init?(_ document: [UInt8], _ jws: JWS?, cutting isDocument: (ArraySlice<UInt8>) -> Bool) {
        guard document.count <= Limits.receipt else { return nil }
        let token = (jws ?? (try? JWS(document))).flatMap { Packing($0, isDocument) }
        guard let packing = token ?? Packing(receipt: document),
            (try? packing.document().isSame(as: document[...])) == true
        else { return nil }
        self = packing
    }

    private init?(_ jws: JWS, _ isDocument: (ArraySlice<UInt8>) -> Bool) {
        let tokens = Self.strings(in: jws.payload).filter { isDocument(jws.payload[$0]) }
        self.init(
            .token, jws.signature, jws.payload,
            [Piece(range: 0..<0, bytes: jws.encodedHeader)]
                + tokens.map { Piece(range: $0, bytes: jws.payload[$0]) })
    }

    private init?(receipt document: [UInt8]) {
        guard let certificates = try? SignedReceipt(decoding: document).certificates else { return nil }
        let pieces = certificates.filter { $0.count >= Self.shortestPiece }.map { slice in
            Piece(range: slice.startIndex..<slice.endIndex, bytes: slice)
        }
        self.init(.text, [], document, pieces)
    }

    /// `nil` where there is no memory to compress it.
    private init?(_ form: Form, _ signature: [UInt8], _ text: [UInt8], _ pieces: [Piece]) {
        var rest: [UInt8] = []
        var end = 0
        for piece in pieces {
            rest += text[end..<piece.range.lowerBound]
            end = piece.range.upperBound
        }
        rest += text[end...]
        // Not what is left of a token, mostly less than a kilobyte: for a notification zlib, with the memory that it goes through,
        // took as long as two of the three signatures.
        guard let kept = form == .token ? rest : Deflate.compress(rest) else { return nil }
        self.form = form
        self.signature = signature
        self.pieces = pieces
        self.kept = kept
        count = rest.count
    }

    /// Where there are strings that may be tokens. Whether this is JSON does not matter, as every piece comes back where it
    /// was.
    private static func strings(in text: [UInt8]) -> [Range<Int>] {
        let quote = UInt8(ascii: "\"")
        var found: [Range<Int>] = []
        var start = text.place(of: quote).map { $0 + 1 } ?? text.count
        while let end = text.place(of: quote, from: start) {
            if end - start >= shortestPiece { found.append(start..<end) }
            start = end + 1
        }
        return found
    }
}

// MARK: - Writing

extension Packing {
    static func plain(_ document: [UInt8]) -> [UInt8] { [Form.plain.rawValue] + document }

    /// What is kept of the document.
    ///
    /// - Parameter numbers: Under which each piece is kept.
    /// - Throws: Where these are not what is read from it: whether the rest of it is right was seen when this was made.
    func packed(_ numbers: [Int64]) throws -> [UInt8] {
        var packed: [UInt8] = []
        // No count takes more than ten octets.
        packed.reserveCapacity(1 + signature.count + kept.count + 10 * (3 + 2 * pieces.count))
        packed.append(form.rawValue)
        packed.append(count: signature.count)
        packed += signature
        packed.append(count: pieces.count)
        var end = 0
        for (piece, number) in zip(pieces, numbers) {
            packed.append(count: piece.range.lowerBound - end)
            packed.append(count: Int(number))
            end = piece.range.upperBound
        }
        packed.append(count: count)
        packed += kept
        let read = try Kept(packed)
        guard read.pieces.map(\.number) == numbers, read.bytes.isSame(as: kept[...]) else {
            throw PackingReader.damaged
        }
        return packed
    }

    /// The document as it would come back.
    private func document() throws -> ArraySlice<UInt8> {
        let packed = try packed(pieces.indices.map(Int64.init))
        return try Self.unpack(packed) { place in
            switch place {
            case .pieces(let index), .documents(let index): pieces[Int(index)].bytes
            }
        }[...]
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
    /// Where something that was cut out is kept, and under which number.
    enum Place {
        case pieces(Int64)
        case documents(Int64)
    }

    /// Puts a document together again.
    ///
    /// - Parameter bytes: What is kept in a place.
    /// - Throws: What `bytes` throws, and ``LedgerStorageError`` where these are not the bytes that were kept.
    static func unpack(_ packed: [UInt8], bytes: (Place) throws -> ArraySlice<UInt8>) throws -> [UInt8] {
        guard packed.first != Form.plain.rawValue else { return Array(packed.dropFirst()) }
        let kept = try Kept(packed)
        let rest = try kept.rest()
        guard kept.form == .token else { return try join(rest, kept.pieces[...]) { try bytes(.pieces($0)) } }
        guard let header = kept.pieces.first else { throw PackingReader.damaged }
        let payload = try join(rest, kept.pieces.dropFirst()) { try bytes(.documents($0)) }
        let dot = [UInt8(ascii: ".")][...]
        return concatenate([
            try bytes(.pieces(header.number)), dot, Base64.encodeURL(payload[...])[...], dot,
            Base64.encodeURL(kept.signature)[...],
        ])
    }

    /// What is kept of a document that was packed.
    private struct Kept {
        let form: Form
        let signature: ArraySlice<UInt8>
        let pieces: [(gap: Int, number: Int64)]
        let count: Int
        let bytes: ArraySlice<UInt8>

        init(_ packed: [UInt8]) throws {
            guard let form = packed.first.flatMap(Form.init), form != .plain else { throw PackingReader.damaged }
            self.form = form
            var reader = PackingReader(packed.dropFirst())
            signature = try reader.bytes(try reader.count())
            pieces = try reader.pieces()
            count = try reader.count()
            bytes = reader.bytes
        }

        /// What is left of the document without its pieces.
        func rest() throws -> [UInt8] {
            guard count <= Limits.receipt else { throw PackingReader.damaged }
            let rest = form == .token ? Array(bytes) : Deflate.decompress(bytes, count: count)
            guard let rest, rest.count == count else { throw PackingReader.damaged }
            return rest
        }
    }

    private static func join(
        _ rest: [UInt8], _ pieces: ArraySlice<(gap: Int, number: Int64)>, _ piece: (Int64) throws -> ArraySlice<UInt8>
    ) throws -> [UInt8] {
        var parts: [ArraySlice<UInt8>] = []
        var (position, count) = (0, rest.count)
        for (gap, number) in pieces {
            guard gap <= rest.count - position else { throw PackingReader.damaged }
            parts.append(rest[position..<position + gap])
            position += gap
            parts.append(try piece(number))
            count += parts[parts.count - 1].count
            guard count <= Limits.receipt else { throw PackingReader.damaged }
        }
        return concatenate(parts + [rest[position...]])
    }

    private static func concatenate(_ parts: [ArraySlice<UInt8>]) -> [UInt8] {
        var whole: [UInt8] = []
        whole.reserveCapacity(parts.reduce(0) { $0 + $1.count })
        for part in parts { whole += part }
        return whole
    }
}

/// A cursor over what was packed.
private struct PackingReader {
    private(set) var bytes: ArraySlice<UInt8>

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
}

// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
import DeflateCoding
package import PurchaseLedger
import ReceiptCoding

/// The stored form of a document. The parts that other documents may contain too (blobs) are cut out and stored once,
/// in separate rows. The stored document refers to each row by a ``BlobName``. The rest of a receipt is compressed.
///
/// The blobs of a token are its header, which has the same three certificates in every token of a signer, and those
/// tokens in its payload that are also stored as documents of their own. The blobs of a receipt are its certificates.
package struct DocumentCodec: Sendable {
    /// The first byte of the stored content. The meaning of a value never changes, because ledgers already contain it.
    enum Form: UInt8 {
        /// The document itself follows.
        case plain = 0
        /// The signature of a compact JWS follows, then the positions and names of the blobs, then the payload around
        /// the blobs. The first blob is the header, in base64url.
        case token = 1
        /// The positions and names of the blobs follow, then the compressed text around the blobs.
        case text = 2
    }

    /// A part of a document that may occur in other documents too.
    package struct Blob: Sendable {
        /// The position in the text: a token's payload, or a whole receipt. The position of a token's header is empty,
        /// because the header is not in the payload.
        var range: Range<Int>
        package var bytes: ArraySlice<UInt8>
    }

    private let form: Form
    private let signature: [UInt8]
    /// The blobs in the order of the text.
    private let blobs: [Blob]
    /// The number of bytes of the text outside the blobs, before compression.
    private let count: Int
    /// The text outside the blobs. The text of a receipt is compressed here.
    private let rest: [UInt8]

    /// The blobs shared by many documents: a token's header, or a receipt's certificates.
    package var sharedBlobs: ArraySlice<Blob> { form == .token ? blobs.prefix(1) : blobs[...] }

    /// The other blobs: tokens in the payload, each a document of its own.
    package var tokens: ArraySlice<Blob> { form == .token ? blobs.dropFirst() : [] }
}

// MARK: - Taking apart

extension DocumentCodec {
    /// Takes apart documents that may be stored soon. The tokens inside a notification that are documents of their own
    /// become blobs.
    package static func codecs(of documents: [Evidence]) -> [DocumentDigest: DocumentCodec] {
        var codecs: [DocumentDigest: DocumentCodec] = [:]
        for document in documents {
            codecs[document.id] = DocumentCodec(document.document, document.jws) { token in
                document.parts.contains { token.isSame(as: $0.document[...]) }
            }
        }
        return codecs
    }

    /// Shorter tokens and certificates stay in the text, because a separate row costs some 40 bytes.
    private static let shortestBlob = 256

    /// - Parameters:
    ///   - jws: The parsed token, or `nil` if the caller has not parsed the document.
    ///   - isDocument: Whether an inner token is a document of its own, to be cut out.
    /// - Returns: `nil` if the document is neither a token nor a receipt, or if decoding would not restore the document
    ///   byte for byte.
    package init?(_ document: [UInt8], _ jws: JWS?, cutting isDocument: (ArraySlice<UInt8>) -> Bool) {
        guard document.count <= Limits.receipt else { return nil }
        // If the document is not a token or cannot be restored, it is not taken apart.
        if let jws = jws ?? (try? JWS(document)), let codec = DocumentCodec(jws, isDocument) {
            // Base64url is read strictly: a payload and a signature have one encoding each, and need not be encoded to
            // compare them. Debug builds prove it.
            guard jws.text.isSame(as: document[...]), codec.restores(jws.payload) else { return nil }
            assert(codec.restores(document: document), "A token has two encodings")
            self = codec
        } else {
            guard let codec = DocumentCodec(receipt: document), codec.restores(document: document) else { return nil }
            self = codec
        }
    }

    /// Whether the text outside the blobs is that of a token's payload, and the tokens in it are in their places.
    private func restores(_ payload: [UInt8]) -> Bool {
        var position = 0
        var end = 0
        for token in tokens {
            let gap = token.range.lowerBound - end
            guard gap >= 0, gap <= rest.count - position, token.range.upperBound <= payload.count,
                rest[position..<position + gap].isSame(as: payload[end..<end + gap]),
                token.bytes.isSame(as: payload[token.range])
            else { return false }
            position += gap
            end = token.range.upperBound
        }
        return rest[position...].isSame(as: payload[end...])
    }

    private init?(_ jws: JWS, _ isDocument: (ArraySlice<UInt8>) -> Bool) {
        let tokens = Self.strings(in: jws.payload).filter { isDocument(jws.payload[$0]) }
        self.init(
            .token, jws.signature, jws.payload,
            [Blob(range: 0..<0, bytes: jws.encodedHeader)]
                + tokens.map { Blob(range: $0, bytes: jws.payload[$0]) })
    }

    private init?(receipt document: [UInt8]) {
        guard let certificates = SignedReceipt(validating: document)?.certificates else { return nil }
        let blobs = certificates.filter { $0.count >= Self.shortestBlob }.map { slice in
            Blob(range: slice.startIndex..<slice.endIndex, bytes: slice)
        }
        self.init(.text, [], document, blobs)
    }

    /// - Returns: `nil` if zlib cannot allocate memory for the compression.
    private init?(_ form: Form, _ signature: [UInt8], _ text: [UInt8], _ blobs: [Blob]) {
        var rest: [UInt8] = []
        var end = 0
        for blob in blobs {
            rest += text[end..<blob.range.lowerBound]
            end = blob.range.upperBound
        }
        rest += text[end...]
        // The rest of a token is not compressed, because it is mostly less than a kilobyte, and compressing it would be
        // slow: for a notification, zlib took as long as verifying two of the three signatures, because it touches so
        // much memory.
        guard let stored = form == .token ? rest : Deflate.compress(rest) else { return nil }
        self.form = form
        self.signature = signature
        self.blobs = blobs
        self.rest = stored
        count = rest.count
    }

    /// The ranges of string literals long enough to be tokens. The text need not be valid JSON: every range is restored
    /// in place.
    private static func strings(in text: [UInt8]) -> [Range<Int>] {
        let quote = UInt8(ascii: "\"")
        var found: [Range<Int>] = []
        var start = text.indexOfFirst(quote).map { $0 + 1 } ?? text.count
        while let end = text.indexOfFirst(quote, from: start) {
            if end - start >= shortestBlob { found.append(start..<end) }
            start = end + 1
        }
        return found
    }
}

// MARK: - Writing

extension DocumentCodec {
    package static func plain(_ document: [UInt8]) -> [UInt8] { [Form.plain.rawValue] + document }

    /// The content to store for the document.
    ///
    /// - Parameter names: The names of the rows with the blobs, in the order of the blobs.
    /// - Throws: `LedgerStorageError` if the names could not be read back. The initializer has already checked that
    ///   everything else can be restored.
    @specialized(where Name == Int64)
    package func encoded<Name: BlobName>(_ names: [Name]) throws -> [UInt8] {
        var bytes: [UInt8] = []
        // A count takes at most ten bytes, and few names take more than 50.
        bytes.reserveCapacity(1 + signature.count + rest.count + 30 + 60 * blobs.count)
        bytes.append(form.rawValue)
        bytes.append(count: signature.count)
        bytes += signature
        bytes.append(count: blobs.count)
        var end = 0
        for (blob, name) in zip(blobs, names) {
            bytes.append(count: blob.range.lowerBound - end)
            name.append(to: &bytes)
            end = blob.range.upperBound
        }
        bytes.append(count: count)
        bytes += rest
        let read = try Parts<Name>(bytes)
        guard read.blobs.map(\.name) == names, read.bytes.isSame(as: rest[...]) else { throw BlobReader.damaged }
        return bytes
    }

    /// Whether decoding restores the document.
    private func restores(document: [UInt8]) -> Bool {
        let restored = try? Self.decode(try encoded(blobs.indices.map(Int64.init))) {
            (reference: BlobReference<Int64>) in
            switch reference {
            case .sharedBlobs(let index), .documents(let index): blobs[Int(index)].bytes
            }
        }
        return restored?.isSame(as: document[...]) ?? false
    }
}

// MARK: - Reading

extension DocumentCodec {
    /// The kind of a blob, and the name of its row.
    package enum BlobReference<Name: BlobName> {
        /// A header or a certificate.
        case sharedBlobs(Name)
        /// A token that is a document of its own.
        case documents(Name)
    }

    /// The references to a document's blobs.
    ///
    /// - Throws: `LedgerStorageError` if `content` is damaged.
    package static func references<Name: BlobName>(in content: [UInt8]) throws -> [BlobReference<Name>] {
        guard content.first != Form.plain.rawValue else { return [] }
        let parts = try Parts<Name>(content)
        return parts.blobs.enumerated().map { index, blob in
            parts.form == .token && index > 0 ? .documents(blob.name) : .sharedBlobs(blob.name)
        }
    }

    /// Restores a document from its stored content.
    ///
    /// - Parameter blob: Reads the blob of a reference.
    /// - Throws: Errors of `blob`, and `LedgerStorageError` if `content` is damaged.
    @specialized(where Name == Int64)
    package static func decode<Name: BlobName>(
        _ content: [UInt8], blob: (BlobReference<Name>) throws -> ArraySlice<UInt8>
    ) throws -> [UInt8] {
        guard content.first != Form.plain.rawValue else { return Array(content.dropFirst()) }
        let parts = try Parts<Name>(content)
        let rest = try parts.rest()
        guard parts.form == .token else { return try join(rest, parts.blobs[...]) { try blob(.sharedBlobs($0)) } }
        guard let header = parts.blobs.first else { throw BlobReader.damaged }
        let payload = try join(rest, parts.blobs.dropFirst()) { try blob(.documents($0)) }
        let dot = [UInt8(ascii: ".")][...]
        return concatenate([
            try blob(.sharedBlobs(header.name)), dot, Base64.encodeURL(payload[...])[...], dot,
            Base64.encodeURL(parts.signature)[...],
        ])
    }

    /// The parts of a document's stored content.
    private struct Parts<Name: BlobName> {
        let form: Form
        let signature: ArraySlice<UInt8>
        let blobs: [(gap: Int, name: Name)]
        let count: Int
        let bytes: ArraySlice<UInt8>

        init(_ content: [UInt8]) throws {
            guard let form = content.first.flatMap(Form.init), form != .plain else { throw BlobReader.damaged }
            self.form = form
            var reader = BlobReader(content.dropFirst())
            signature = try reader.bytes(try reader.count())
            blobs = try reader.blobs()
            count = try reader.count()
            bytes = reader.bytes
        }

        /// The rest of the text, without the blobs.
        func rest() throws -> [UInt8] {
            guard count <= Limits.receipt else { throw BlobReader.damaged }
            let rest = form == .token ? Array(bytes) : Deflate.decompress(bytes, count: count)
            guard let rest, rest.count == count else { throw BlobReader.damaged }
            return rest
        }
    }

    private static func join<Name>(
        _ rest: [UInt8], _ blobs: ArraySlice<(gap: Int, name: Name)>, _ blob: (Name) throws -> ArraySlice<UInt8>
    ) throws -> [UInt8] {
        var parts: [ArraySlice<UInt8>] = []
        var position = 0
        var count = rest.count
        for (gap, name) in blobs {
            guard gap <= rest.count - position else { throw BlobReader.damaged }
            parts.append(rest[position..<position + gap])
            position += gap
            parts.append(try blob(name))
            count += parts[parts.count - 1].count
            guard count <= Limits.receipt else { throw BlobReader.damaged }
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

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import DocumentPacking
import PurchaseLedger

/// The name by which a packed document refers to a part with a row of its own.
enum PartName: BlobName {
    /// The header of a signed token, or a certificate, in the table `pieces`. Its name is the first 16 bytes of its
    /// digest.
    case sharedBlob([UInt8])
    /// A signed token inside the document, for example in a notification. The token is also a document of its own in
    /// the table `documents`.
    case document(Provenance)

    /// The length of a shared blob's name in bytes. At this length it is infeasible to find two blobs with the same
    /// name. If it happened, a document restored with the wrong blob would not have the document's digest, and so would
    /// be found damaged.
    private static let sharedBlobLength = 16
    private static let dateLength = 8
    private static let digestLength = 32

    init(sharedBlob bytes: ArraySlice<UInt8>) {
        self = .sharedBlob(Array(DocumentDigest(bytes).bytes.prefix(Self.sharedBlobLength)))
    }

    init(from reader: inout BlobReader) throws {
        let bytes = Array(try reader.bytes(try reader.count()))
        if bytes.count == Self.sharedBlobLength {
            self = .sharedBlob(bytes)
        } else if bytes.count == Self.dateLength + Self.digestLength,
            let digest = DocumentDigest(bytes: bytes.dropFirst(Self.dateLength))
        {
            let date = bytes.prefix(Self.dateLength).reduce(0) { $0 << 8 | Int64($1) }
            self = .document(Provenance(signedDate: Timestamp(milliseconds: date), digest: digest))
        } else {
            throw BlobReader.damaged
        }
    }

    func append(to bytes: inout [UInt8]) {
        switch self {
        case .sharedBlob(let name):
            bytes.append(count: name.count)
            bytes += name
        case .document(let name):
            bytes.append(count: Self.dateLength + Self.digestLength)
            bytes += withUnsafeBytes(of: name.signedDate.milliseconds.bigEndian) { Array($0) } + name.digest.bytes
        }
    }
}

/// The stored form of documents, in which a part shared by several documents is stored only once.
enum PackedDocument {
    /// The content of a row of `documents`, and the shared blobs to store with the row.
    ///
    /// - Parameter isStored: Whether a token inside the document is stored byte for byte as a document of its own, so
    ///   that the content can omit the token. The name of a token does not suffice, because the name does not cover the
    ///   signature.
    static func pack(
        _ evidence: Evidence, isStored: (Evidence) -> Bool
    ) throws -> (content: [UInt8], sharedBlobs: [PartName: [UInt8]]) {
        // An omitted token must not itself contain tokens. Restoring a document therefore takes a bounded number of
        // steps.
        let parts = evidence.parts.filter { $0.parts.isEmpty && isStored($0) }
        let codec = DocumentCodec(evidence.document, evidence.jws) { token in
            parts.contains { token.isSame(as: $0.document[...]) }
        }
        let plain = (content: DocumentCodec.plain(evidence.document), sharedBlobs: [PartName: [UInt8]]())
        guard let codec else { return plain }
        let tokens = codec.tokens.compactMap { token in
            parts.first { token.bytes.isSame(as: $0.document[...]) }.map { PartName.document($0.provenance) }
        }
        guard tokens.count == codec.tokens.count else { return plain }
        let shared = codec.sharedBlobs.map { (name: PartName(sharedBlob: $0.bytes), bytes: Array($0.bytes)) }
        let content = try codec.encoded(shared.map(\.name) + tokens)
        guard content.count < evidence.document.count else { return plain }
        return (content, Dictionary(shared.map { ($0.name, $0.bytes) }) { first, _ in first })
    }

    /// The parts named in the content of a document; none if the content is damaged.
    static func parts(of content: [UInt8]) -> Set<PartName> {
        // An error means that the content is damaged. This is reported when the document is restored.
        let references: [DocumentCodec.BlobReference<PartName>]? = try? DocumentCodec.references(in: content)
        return Set(
            (references ?? []).map { reference in
                switch reference {
                case .sharedBlobs(let name), .documents(let name): name
                }
            })
    }

    /// Restores a document.
    ///
    /// - Parameter parts: The contents of the parts named in `content`, and of the parts named in these contents in
    ///   turn.
    /// - Throws: `LedgerStorageError` if the content is damaged, or a part is missing.
    static func unpack(_ content: [UInt8], _ parts: [PartName: [UInt8]]) throws -> [UInt8] {
        try DocumentCodec.decode(content) { (reference: DocumentCodec.BlobReference<PartName>) in
            switch reference {
            case .sharedBlobs(let name): try stored(name, parts)[...]
            case .documents(let name): try token(stored(name, parts), parts)[...]
            }
        }
    }

    /// Restores a token named in a document. If the token's content names a further token, it is damaged, because
    /// ``pack(_:isStored:)`` omits no token that contains tokens.
    private static func token(_ content: [UInt8], _ parts: [PartName: [UInt8]]) throws -> [UInt8] {
        try DocumentCodec.decode(content) { (reference: DocumentCodec.BlobReference<PartName>) in
            guard case .sharedBlobs(let name) = reference else { throw BlobReader.damaged }
            return try stored(name, parts)[...]
        }
    }

    private static func stored(_ name: PartName, _ parts: [PartName: [UInt8]]) throws -> [UInt8] {
        guard let content = parts[name] else { throw BlobReader.damaged }
        return content
    }
}

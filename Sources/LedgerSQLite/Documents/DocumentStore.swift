// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import DocumentPacking
import PurchaseLedger

/// Encodes documents for the ledger, and decodes them. A part that several documents share, such as a header or a
/// certificate, is stored once, as a blob in a row of its own.
struct DocumentStore {
    let session: SQLiteLedgerSession

    /// The maximum nesting depth of documents. Because of base64url, a token is at least a third longer than each token
    /// inside it, so even the longest token that ``DocumentCodec`` cuts has fewer than 40 levels. Only a damaged ledger
    /// with a cycle of documents goes deeper.
    private static let deepest = 64

    /// The content to store for a document.
    func content(of evidence: Evidence) throws -> [UInt8] {
        // A token inside the document (a signed transaction, say) is cut out only if it is stored as a document too.
        // Otherwise it stays in the content, and is deleted with the content. The codec made before the transaction is
        // used only if all tokens that it cut out are stored.
        let isStored = { session.documents.number(of: $0) != nil }
        let prepared = session.encoded[evidence.id].flatMap { $0.tokens.allSatisfy { isStored($0.bytes) } ? $0 : nil }
        guard let codec = prepared ?? DocumentCodec(evidence.document, evidence.jws, cutting: isStored) else {
            return DocumentCodec.plain(evidence.document)
        }
        let tokens = codec.tokens.compactMap { session.documents.number(of: $0.bytes) }
        guard tokens.count == codec.tokens.count else { return DocumentCodec.plain(evidence.document) }
        let content = try codec.encoded(codec.sharedBlobs.map(number) + tokens)
        guard content.count < evidence.document.count else { return DocumentCodec.plain(evidence.document) }
        for token in tokens { try session.pin(token) }
        return content
    }

    /// The row number of a shared part. A new part is inserted.
    private func number(of blob: DocumentCodec.Blob) throws -> Int64 {
        if let number = session.cache.sharedBlobs.number(of: blob.bytes) { return number }
        let bytes = Array(blob.bytes)
        let digest = DocumentDigest(blob.bytes).leading.stored
        let candidates = try session.all("SELECT id, content FROM sharedBlobs WHERE digest = ?", [digest]) {
            (number: try $0.next(Int64.self), content: try $0.next([UInt8].self))
        }
        let number =
            try candidates.first { $0.content == bytes }?.number
            ?? session.insert("INSERT INTO sharedBlobs (digest, content) VALUES (?, ?)", [digest, .bytes(bytes)])
        session.cache.sharedBlobs.add(bytes[...], number)
        return number
    }

    /// Restores a document from its stored content.
    func document(_ content: [UInt8], depth: Int = 0) throws -> [UInt8] {
        guard depth <= Self.deepest else { throw Self.missing }
        return try DocumentCodec.decode(content) { (reference: DocumentCodec.BlobReference<Int64>) in
            switch reference {
            case .sharedBlobs(let number):
                try stored("SELECT content FROM sharedBlobs WHERE id = ?", number)[...]
            case .documents(let number):
                try document(stored("SELECT content FROM documents WHERE number = ?", number), depth: depth + 1)[...]
            }
        }
    }

    private func stored(_ sql: String, _ number: Int64) throws -> [UInt8] {
        guard let content = try session.first(sql, [.integer(number)], { try $0.next([UInt8].self) }) else {
            throw Self.missing
        }
        return content
    }

    private static var missing: LedgerStorageError { SQLiteErrors.damaged("A document in the ledger lacks a part") }
}

extension DocumentDigest {
    /// The first eight bytes of the digest.
    fileprivate var leading: Int64 { bytes.prefix(8).reduce(0) { $0 << 8 | Int64($1) } }
}

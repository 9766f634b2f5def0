// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import GRDB
import PurchaseLedger

/// How documents are kept: without what they have in common with others.
struct EvidenceParts {
    let session: SQLiteLedgerSession

    /// How deep documents stand in documents. A token is a third longer than the tokens in it, so that in the longest one that
    /// is taken apart not 40 levels fit. More is a circle, which nobody here wrote.
    private static let deepest = 64

    /// What is kept of a document.
    func content(of evidence: Evidence) throws -> [UInt8] {
        // Of the tokens inside only those are cut out that are documents too. Unknown ones stay inline and are deleted with the
        // document.
        let isKnown = { session.cache.parts.document($0) != nil }
        let prepared = session.packings[evidence.id].flatMap { $0.tokens.allSatisfy { isKnown($0.bytes) } ? $0 : nil }
        // What does not come back from its packing byte for byte has none.
        guard let packing = prepared ?? Packing(evidence.document, evidence.jws, cutting: isKnown) else {
            return Packing.plain(evidence.document)
        }
        let tokens = packing.tokens.compactMap { session.cache.parts.document($0.bytes) }
        guard tokens.count == packing.tokens.count else { return Packing.plain(evidence.document) }
        let packed = try packing.packed(packing.shared.map(number) + tokens)
        return packed.count < evidence.document.count ? packed : Packing.plain(evidence.document)
    }

    /// The number of a piece that is no document. One that is not kept yet is now.
    private func number(of piece: Packing.Piece) throws -> Int64 {
        if let number = session.cache.parts.piece(piece.bytes) { return number }
        let id = EvidenceID(piece.bytes)
        let number = try found(piece, id) ?? insert(piece, id)
        session.cache.parts.add(piece: piece.bytes, number)
        return number
    }

    private func found(_ piece: Packing.Piece, _ id: EvidenceID) throws -> Int64? {
        let candidates = try session.all("SELECT id, content FROM pieces WHERE digest = ?", [.integer(id.leading)]) {
            (number: try $0.integer(), content: try $0.octets())
        }
        return candidates.first { piece.bytes.isSame(as: $0.content[...]) }?.number
    }

    private func insert(_ piece: Packing.Piece, _ id: EvidenceID) throws -> Int64 {
        try session.insert(
            "INSERT INTO pieces (digest, content) VALUES (?, ?)", [.integer(id.leading), .octets(Array(piece.bytes))])
    }

    /// The document of which this is kept.
    func document(_ content: [UInt8], depth: Int = 0) throws -> [UInt8] {
        guard depth <= Self.deepest else { throw Self.missing }
        return try Packing.unpack(content) { place in
            switch place {
            case .pieces(let number):
                try kept("SELECT content FROM pieces WHERE id = ?", number)[...]
            case .documents(let number):
                try document(kept("SELECT content FROM documents WHERE number = ?", number), depth: depth + 1)[...]
            }
        }
    }

    private func kept(_ sql: String, _ number: Int64) throws -> [UInt8] {
        guard let content = try session.first(sql, [.integer(number)], { try $0.octets() }) else { throw Self.missing }
        return content
    }

    private static var missing: LedgerStorageError { SQLiteErrors.damaged("A document in the ledger misses a piece") }
}

extension EvidenceID {
    /// Its first eight octets.
    var leading: Int64 {
        bytes.prefix(8).reduce(0) { $0 << 8 | Int64($1) }
    }
}

/// The documents and pieces that were met last. The tokens in a notification are kept before it, and all three have one header:
/// nothing of that is hashed, looked for and put together a second time.
struct KnownParts: Sendable {
    typealias Part = (bytes: ArraySlice<UInt8>, number: Int64)

    private static let limit = 8

    /// That the present decision loaded or added. Later ones must not rely on them: a document may be erased with a chain that
    /// they do not know.
    var documents: [Part] = []
    private var pieces: [Part] = []

    func document(_ bytes: ArraySlice<UInt8>) -> Int64? { Self.number(of: bytes, in: documents) }

    func piece(_ bytes: ArraySlice<UInt8>) -> Int64? { Self.number(of: bytes, in: pieces) }

    mutating func add(document bytes: [UInt8], _ number: Int64) {
        Self.add((bytes[...], number), to: &documents)
    }

    mutating func add(piece bytes: ArraySlice<UInt8>, _ number: Int64) {
        // Not the whole document that it is a slice of.
        Self.add((Array(bytes)[...], number), to: &pieces)
    }

    private static func number(of bytes: ArraySlice<UInt8>, in parts: [Part]) -> Int64? {
        // The last are the likeliest.
        parts.last { $0.bytes.isSame(as: bytes) }?.number
    }

    private static func add(_ part: Part, to parts: inout [Part]) {
        if parts.count == limit { parts.removeFirst() }
        parts.append(part)
    }
}

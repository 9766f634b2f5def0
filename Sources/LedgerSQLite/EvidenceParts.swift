// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import GRDB
import PurchaseLedger

/// The table of what documents are made of.
struct EvidenceParts {
    let tables: LedgerTables

    /// How deep parts refer to parts. A token is a third longer than the tokens in it, so that in the longest document that
    /// is taken apart not 40 levels fit. More is a circle, which nobody here wrote.
    private static let deepest = 64

    /// The number of the part with these bytes; `nil` where there is none.
    func number(of bytes: ArraySlice<UInt8>, _ id: EvidenceID) throws -> Int64? {
        for (number, found) in try candidates(id) where bytes.isSame(as: found[...]) { return number }
        return nil
    }

    /// Keeps bytes that are not kept yet, and returns their number.
    ///
    /// - Parameter packing: Of these bytes, where it was made ahead.
    func keep(_ bytes: ArraySlice<UInt8>, _ packing: Packing?, new id: EvidenceID) throws -> Int64 {
        let number = try insert(try pack(bytes, packing) ?? Packing.plain(bytes), id)
        tables.knownParts.add(bytes, number)
        return number
    }

    private func insert(_ packed: [UInt8], _ id: EvidenceID) throws -> Int64 {
        try tables.insert(
            "INSERT INTO parts (digest, content) VALUES (?, ?)", [.integer(id.leading), .octets(packed)])
    }

    /// What is kept of a document; `nil` where it does not come back from that byte for byte.
    private func pack(_ bytes: ArraySlice<UInt8>, _ prepared: Packing?) throws -> [UInt8]? {
        // Of the tokens inside only those are cut out that were added just before, as evidence of their own. One that nobody knows
        // goes when the document goes.
        let isKnown = { tables.knownParts.number(of: $0) != nil }
        let usable = prepared.flatMap { $0.tokens.allSatisfy { isKnown($0.bytes) } ? $0 : nil }
        guard let packing = usable ?? Packing(bytes, cutting: isKnown) else { return nil }
        let packed = try packing.packed(packing.pieces.map(keep))
        return packed.count < bytes.count ? packed : nil
    }

    private func keep(_ piece: Packing.Piece) throws -> Int64 {
        if let number = tables.knownParts.number(of: piece.bytes) { return number }
        let id = EvidenceID(piece.bytes)
        let number = try number(of: piece.bytes, id) ?? insert(Packing.plain(piece.bytes), id)
        tables.knownParts.add(shared: piece.bytes, number)
        return number
    }

    /// The bytes of a part.
    func bytes(_ number: Int64, depth: Int = 0) throws -> [UInt8] {
        guard depth <= Self.deepest,
            let content = try tables.first(
                "SELECT content FROM parts WHERE id = ?", [.integer(number)], { try $0.octets() })
        else { throw SQLiteErrors.damaged("A document in the ledger misses a part") }
        return try unpack(content, depth: depth)
    }

    /// The parts whose digests begin alike: one, or none, unless somebody found two such.
    func candidates(_ id: EvidenceID) throws -> [(Int64, [UInt8])] {
        try tables.all("SELECT id, content FROM parts WHERE digest = ?", [.integer(id.leading)]) {
            (try $0.integer(), try $0.octets())
        }.map { ($0, try unpack($1, depth: 0)) }
    }

    private func unpack(_ content: [UInt8], depth: Int) throws -> [UInt8] {
        try Packing.unpack(content) { try bytes($0, depth: depth + 1) }
    }
}

extension EvidenceID {
    /// Its first eight octets.
    var leading: Int64 {
        octets.prefix(8).reduce(0) { $0 << 8 | Int64($1) }
    }
}

/// The parts that were met last. The tokens in a notification are kept before it, and all three have one header: nothing
/// of that is hashed, looked for and put together a second time.
struct KnownParts: Sendable {
    private typealias Part = (bytes: ArraySlice<UInt8>, number: Int64)

    private static let limit = 8

    private var documents: [Part] = []
    /// Headers and certificates, which stay when documents are forgotten.
    private var shared: [Part] = []

    /// What of this holds in later transactions too.
    var lasting: KnownParts {
        var lasting = KnownParts()
        lasting.shared = shared
        return lasting
    }

    func number(of bytes: ArraySlice<UInt8>) -> Int64? {
        (documents.first { $0.bytes.isSame(as: bytes) } ?? shared.first { $0.bytes.isSame(as: bytes) })?.number
    }

    /// Adds a document.
    mutating func add(_ bytes: ArraySlice<UInt8>, _ number: Int64) {
        Self.add((bytes, number), to: &documents)
    }

    /// Adds a piece that is no document.
    mutating func add(shared bytes: ArraySlice<UInt8>, _ number: Int64) {
        // Not the whole document that it is a slice of.
        Self.add((Array(bytes)[...], number), to: &shared)
    }

    private static func add(_ part: Part, to parts: inout [Part]) {
        if parts.count == limit { parts.removeFirst() }
        parts.append(part)
    }
}

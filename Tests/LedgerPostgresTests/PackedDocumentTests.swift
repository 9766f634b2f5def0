// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import DocumentPacking
import PurchaseLedger
import TestPostgres
import Testing

@testable import LedgerPostgres

/// Tests that documents are stored once in parts, read back byte for byte, and that damage is reported.
@Suite struct PackedDocumentTests {
    private static let scope = LedgerScope(bundleId: "com.example", environment: .production)
    /// As long as Apple's, with three certificates.
    private static let header = #"{"alg":"ES256","x5c":["\#(String(repeating: "M", count: 4300))"]}"#

    private static func token(_ payload: String, signature: UInt8 = 9) -> [UInt8] {
        let parts = [Array(header.utf8), Array(payload.utf8), [UInt8](repeating: signature, count: 64)]
        return Array(parts.map { Base64.encodeURL($0[...]) }.joined(separator: [UInt8(ascii: ".")]))
    }

    private static func evidence(
        _ kind: Evidence.Kind, _ payload: String, signature: UInt8 = 9, parts: [Evidence] = [], at time: Int64
    ) -> Evidence {
        Evidence(kind, token(payload, signature: signature), scope, Timestamp(milliseconds: time), parts: parts) {
            name in
            ([], [RenewalFact(provenance: name, chain: "2000000001")])
        }
    }

    /// A notification with two tokens in it: some 20 KB.
    ///
    /// - Parameter signature: The bytes of the tokens' signatures.
    private static func notification(_ number: Int, signature: UInt8 = 9) -> Evidence {
        let fields = String(repeating: "x", count: 700)
        let time = Int64(1_750_000_000_000 + number)
        let parts = [
            evidence(
                .transaction, #"{"transactionId":"\#(number)","a":"\#(fields)"}"#, signature: signature, at: time),
            evidence(.renewalInfo, #"{"renewal":"\#(number)","a":"\#(fields)"}"#, signature: signature, at: time),
        ]
        let texts = parts.map { String(decoding: $0.document, as: UTF8.self) }
        let payload = #"{"uuid":"\#(number)","data":{"t":"\#(texts[0])","r":"\#(texts[1])"}}"#
        return evidence(.notification, payload, parts: parts, at: time)
    }

    private static func packed() throws -> (evidence: Evidence, content: [UInt8], parts: [PartName: [UInt8]]) {
        let evidence = notification(1)
        var (content, parts) = try PackedDocument.pack(evidence) { _ in true }
        for part in evidence.parts {
            let packed = try PackedDocument.pack(part) { _ in true }
            parts[.document(part.provenance)] = packed.content
            parts.merge(packed.sharedBlobs) { first, _ in first }
        }
        return (evidence, content, parts)
    }

    @Test func `a packed notification and its tokens are a sixth of their texts, and come back as they were`() throws {
        let (evidence, content, parts) = try Self.packed()
        #expect(try PackedDocument.unpack(content, parts) == evidence.document)
        let tokens = evidence.parts.compactMap { parts[.document($0.provenance)]?.count }
        #expect(tokens.count == 2)
        #expect((content.count + tokens.reduce(0, +)) * 6 < evidence.document.count)
    }

    @Test func `a content that was cut off is damage, and one that was changed ends nothing`() throws {
        let (evidence, content, parts) = try Self.packed()
        for count in content.indices {
            let found = try? PackedDocument.unpack(Array(content[..<count]), parts)
            #expect(found != evidence.document)
            _ = PackedDocument.parts(of: Array(content[..<count]))
        }
        for place in content.indices {
            for bit in 0..<8 {
                var changed = content
                changed[place] ^= 1 << bit
                _ = try? PackedDocument.unpack(changed, parts)
                _ = PackedDocument.parts(of: changed)
            }
        }
    }

    @Test func `a missing part, an unknown form and a token in a token are damage`() throws {
        let (_, content, parts) = try Self.packed()
        for name in parts.keys {
            var fewer = parts
            fewer[name] = nil
            #expect(throws: LedgerStorageError.self) { try PackedDocument.unpack(content, fewer) }
        }
        for form in 3...255 as ClosedRange<UInt8> {
            #expect(throws: LedgerStorageError.self) { try PackedDocument.unpack([form] + content.dropFirst(), parts) }
        }
        // Documents that name each other would have no end.
        let cycle = parts.mapValues { $0.first == content.first ? content : $0 }
        #expect(throws: LedgerStorageError.self) { try PackedDocument.unpack(content, cycle) }
        #expect(throws: LedgerStorageError.self) { try PackedDocument.unpack([], parts) }
    }
}

extension PackedDocumentTests {
    private static func store(_ documents: [Evidence], in storage: PostgresLedgerStorage) async throws {
        let query = LedgerQuery(documents.flatMap { $0.parts + [$0] }.map(\.provenance).map(LedgerKey.document))
        try await storage.commit(query) { snapshot in
            var changes = LedgerChanges()
            let all = documents.flatMap { $0.parts + [$0] }
            for document in all where !snapshot.names.contains(document.provenance) {
                changes.documents.append(
                    NewDocument(document, for: Set(document.chains), receivedAt: Timestamp(milliseconds: 1)))
            }
            return .commit(changes, ())
        }
    }

    @Test(.needsPostgres) func `the header is stored once, and another server restores what one has stored`()
        async throws
    {
        let database = try TestPostgres.database()
        let (one, other) = (try await database.storage(), try await database.storage())
        let documents = (0..<20).map { Self.notification($0) }
        try await Self.store([documents[0]], in: other)
        try await Self.store(Array(documents.dropFirst()), in: one)
        #expect(try database.psql("SELECT count(*) FROM quittance.pieces") == "1")
        #expect(try database.psql("SELECT sum(length(content)) / 20 < 3500 FROM quittance.documents") == "t")
        let names = Set(documents.map(\.provenance))
        let found = try await other.load(LedgerQuery(names.map(LedgerKey.content))).documents
        for document in documents { #expect(found[document.provenance]?.document == document.document) }
        let page = try await one.documents(.all, after: nil, limit: 100)
        #expect(page.items.count == 60)
        #expect(page.damage.isEmpty)
    }

    /// A token's name leaves its signature out, and each signing makes another one.
    @Test(.needsPostgres, arguments: [true, false])
    func `a notification comes back as it was if its tokens are stored with other signatures`(
        isOneCommit: Bool
    )
        async throws
    {
        let storage = try await TestPostgres.database().storage()
        let (other, notification) = (Self.notification(1, signature: 8), Self.notification(1))
        if isOneCommit {
            try await Self.store(other.parts + [notification], in: storage)
        } else {
            try await Self.store(other.parts, in: storage)
            try await Self.store([notification], in: storage)
        }
        let found = try await storage.load(LedgerQuery([.content(notification.provenance)])).documents
        #expect(found[notification.provenance]?.document == notification.document)
    }

    @Test(.needsPostgres)
    func `a document of a kind that only a newer version knows is read, and keeps its kind`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        let notification = Self.notification(1)
        try await Self.store([notification], in: storage)
        try database.psql("UPDATE quittance.documents SET kind = 'consumptionReport'")
        let found = try await storage.load(LedgerQuery([.content(notification.provenance)])).documents
        #expect(found[notification.provenance]?.kind == Open(rawValue: "consumptionReport"))
        #expect(found[notification.provenance]?.document == notification.document)
        let page = try await storage.documents(.all, after: nil, limit: 100)
        #expect(Set(page.items.map(\.kind.rawValue)) == ["consumptionReport"] && page.damage.isEmpty)
    }

    @Test(.needsPostgres) func `a document that lacks a part is reported, and the others are read`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        try await Self.store([Self.notification(1)], in: storage)
        try database.psql("UPDATE quittance.documents SET content = '\\x09'::bytea WHERE kind = 'renewalInfo'")
        let page = try await storage.documents(.all, after: nil, limit: 100)
        #expect(page.items.map(\.kind) == [Open(.transaction)])
        #expect(page.damage.count == 2)
        try database.psql("DELETE FROM quittance.pieces")
        #expect(try await storage.documents(.all, after: nil, limit: 100).damage.count == 3)
    }

    @Test(.needsPostgres) func `documents in plain form are read beside packed ones`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        let documents = (1...2).map { Self.evidence(.transaction, #"{"transactionId":"\#($0)"}"#, at: $0) }
        try await Self.store(documents, in: storage)
        let text = String(decoding: documents[0].document, as: UTF8.self)
        try database.psql(
            """
            UPDATE quittance.documents SET content = '\\x00'::bytea || convert_to('\(text)', 'UTF8')
            WHERE signed_date = 1
            """)
        let query = LedgerQuery(documents.map(\.provenance).map(LedgerKey.content))
        let found = try await storage.load(query).documents
        #expect(documents.map { found[$0.provenance]?.document } == documents.map(\.document))
    }
}

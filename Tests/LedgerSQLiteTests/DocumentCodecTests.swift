// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation
import LedgerSQLite
import PurchaseLedger
import ReceiptCoding
import TestData
import Testing

/// Tests that documents are read back byte for byte, whatever their form, and that their common parts are stored once.
@Suite struct DocumentCodecTests {
    private static func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

    /// Stores documents, and expects each to be read back unchanged.
    private func expectBack(
        _ documents: [[UInt8]], in storage: SQLiteLedgerStorage? = nil, new count: Int? = nil
    ) async throws {
        let storage = try storage ?? .inMemory()
        // Of two documents that differ only in unsigned parts, only the first is stored.
        let new = try await storage.store(documents.map { .unverified($0) })
        #expect(new.count == count ?? Set(documents.map { DocumentDigest($0, .notification) }).count)
        for document in new {
            let found = try await storage.load(LedgerQuery([.content(document.provenance)]))
            #expect(found.documents[document.provenance]?.document == document.document)
        }
    }

    @Test func `a signer's header and the tokens in a notification are stored once`() async throws {
        let storage = try SQLiteLedgerStorage.inMemory()
        var appStore = try AppStore()
        let transaction = try appStore.sign(#"{"transactionId":"1"}"#)
        let notifications = try ["A", "B"].map { try appStore.sign(#"{"\#($0)":"\#(transaction)"}"#) }
        // The token and the rest of the notification are rows of documents. Their common header is a shared blob.
        try await expectBack([Self.bytes(transaction), Self.bytes(notifications[0])], in: storage)
        try await expectRows(documents: 2, sharedBlobs: 1, in: storage)
        try await expectBack([Self.bytes(transaction), Self.bytes(notifications[1])], in: storage, new: 1)
        try await expectRows(documents: 3, sharedBlobs: 1, in: storage)
        #expect(try await storage.number("SELECT max(length(content)) FROM documents") < 200)
        // Tokens that are not documents of their own are stored in the notification that contains them.
        try await expectBack([Self.bytes(appStore.notification())], in: storage)
        try await expectRows(documents: 4, sharedBlobs: 1, in: storage)
    }

    private func expectRows(documents: Int, sharedBlobs: Int, in storage: SQLiteLedgerStorage) async throws {
        #expect(try await storage.number("SELECT count(*) FROM documents") == documents)
        #expect(try await storage.number("SELECT count(*) FROM sharedBlobs") == sharedBlobs)
    }

    @Test func `a receipt's certificates are stored once`() async throws {
        let storage = try SQLiteLedgerStorage.inMemory()
        var plan = ReceiptPlan(Array(repeating: 7, count: 5000), by: try AppStore().receipts)
        let first = try plan.signed()
        plan.payload = Array(repeating: 9, count: 5000)
        try await expectBack([first, plan.signed()], in: storage)
        try await expectRows(documents: 2, sharedBlobs: 3, in: storage)
        #expect(try await storage.number("SELECT sum(length(content)) FROM documents") < 1500)
    }

    /// Otherwise an attacker with one receipt could fill the disk with unsigned certificates.
    @Test func `a receipt that is stored already adds nothing to the disk, even with other unsigned certificates`()
        async throws
    {
        let storage = try SQLiteLedgerStorage.inMemory()
        var plan = ReceiptPlan(Array(repeating: 7, count: 5000), by: try AppStore().receipts)
        func add(_ receipt: [UInt8]) async throws -> Bool {
            try await storage.store(.unverified(receipt, .receipt))
        }
        #expect(try await add(plan.signed()))
        let numbers = "SELECT seq FROM sqlite_sequence WHERE name = 'documents'"
        let last = try await storage.number(numbers)
        for other in UInt8(1)...3 {
            plan.certificates.append([0x30, 0x82, 0x01, 0x2c] + Array(repeating: other, count: 300))
            #expect(try await add(plan.signed()) == false)
        }
        try await expectRows(documents: 1, sharedBlobs: 3, in: storage)
        #expect(try await storage.number(numbers) == last)
    }

    @Test(.enabled(if: TestData.isThere, Comment(rawValue: TestData.whyNot)))
    func `genuine documents are read back unchanged`() async throws {
        let folder = TestData.folder
        let paths = try ["receipts", "jws", "transaction-receipts"].flatMap { name in
            try FileManager.default.contentsOfDirectory(atPath: folder.appendingPathComponent(name).path)
                .map { "\(name)/\($0)" }
        }
        let documents = paths.sorted().compactMap { path -> [UInt8]? in
            path.hasSuffix(".b64") ? try? TestData.receipt(path) : try? TestData.bytes(path)
        }
        #expect(documents.count > 10)
        try await expectBack(Array(Set(documents)))
    }

    /// Documents that are no tokens, or that deviate from the form of a token.
    static let odd: [(String, [UInt8])] = {
        let header = String(repeating: "QUFB", count: 100)
        let token = "\(header).e30.AAAA"
        return [
            ("nothing", []), ("one byte", [0]), ("the first byte of stored content", [1]), ("dots", bytes("..")),
            ("no signature", bytes("\(header).e30.")), ("no payload", bytes("\(header)..AAAA")),
            ("no header", bytes(".e30.AAAA")), ("two parts", bytes("\(header).e30")),
            ("four parts", bytes("\(token).AAAA")), ("spare bits in the payload", bytes("\(header).e31.AAAA")),
            ("spare bits in the signature", bytes("\(header).e30.AB")), ("padding", bytes("\(header).e30=.AAAA")),
            ("the standard base64 alphabet", bytes("\(header).e30+.AA/A")), ("a line end", bytes("\(token)\n")),
            ("a header that is not base64url", bytes("{\"alg\":1}\u{0}é.e30.AAAA")),
            ("a payload that is not JSON", bytes("\(header).AAECAw.AAAA")),
            ("a token in quotes", bytes("\"\(token)\"")),
            ("a notification's body", bytes("{\"signedPayload\":\"\(token)\"}")),
            ("a receipt's beginning", [0x30, 0x82, 0x01, 0x00]),
        ]
    }()

    @Test(arguments: odd) func `a document of an odd form is read back unchanged`(
        name: String, document: [UInt8]
    ) async throws {
        try await expectBack([document])
    }

    @Test func `tokens in odd places of a payload are read back unchanged`() async throws {
        let appStore = try AppStore()
        let token = try appStore.sign("{}")
        let payloads = [
            token, "\"\(token)\"", "[\"\(token)\",\"\(token)\"]", "{\"\(token)\":1}", "\"\(token)\"\"\(token)\"",
            "{ \"a\" :\t\"\(token)\" , \"a\":\"\(token)\"}\n", "\"\\\"\(token)\\\"\"", "\"\(token).\"", "\".\(token)\"",
            "\"\\u0065\(token)\"", "\"\(token)", "\"\(token.dropLast(2))\"", "\"\(token.replacing(".", with: "."))=\"",
            "\"\(String(repeating: "a", count: 300))..\"", "\"\(String(repeating: "a", count: 300)).a.a\"", "",
        ]
        try await expectBack(payloads.map { Self.bytes(try appStore.sign($0)) })
    }

    @Test func `tokens nested in tokens are read back unchanged`() async throws {
        let appStore = try AppStore()
        var tokens = [try appStore.sign("{}")]
        for _ in 0..<8 { tokens.append(try appStore.sign("{\"a\":\"\(tokens[tokens.count - 1])\"}")) }
        for order in [tokens, tokens.reversed()] { try await expectBack(order.map(Self.bytes)) }
        for token in tokens { try await expectBack([Self.bytes(token)]) }
    }

    @Test func `a mebibyte of tokens and a mebibyte of noise are read back unchanged`() async throws {
        let appStore = try AppStore()
        var random = SeededRandom(seed: 2)
        let token = try appStore.sign("{}")
        let many = Array(repeating: "\"\(token)\"", count: (3 << 18) / token.utf8.count - 1).joined(separator: ",")
        let noise = (0..<1 << 20).map { _ in UInt8.random(in: 0...255, using: &random) }
        try await expectBack([Self.bytes(try appStore.sign(many)), noise])
    }

    @Test(arguments: Seeds.first(10))
    func `a notification, token or receipt with a random change is read back unchanged`(seed: UInt64) async throws {
        var random = SeededRandom(seed: seed)
        var appStore = try AppStore()
        let receipt = try ReceiptPlan(Array(repeating: 7, count: 300), by: appStore.receipts).signed()
        let documents = try [
            Self.bytes(appStore.notification()), Self.bytes(appStore.sign(#"{"a":1}"#)), receipt,
        ]
        var changed = documents
        for _ in 0..<30 {
            for document in documents { changed.append(Self.change(document, &random)) }
        }
        try await expectBack(changed)
    }

    /// The document with one byte replaced, removed or inserted, with a part repeated, or without its end.
    private static func change(_ document: [UInt8], _ random: inout SeededRandom) -> [UInt8] {
        var changed = document
        let index = Int.random(in: document.indices, using: &random)
        let letters = Array("AZaz09-_.=\"{}\\ ".utf8) + [0, 0x30, 0x80, 0xff]
        switch Int.random(in: 0..<5, using: &random) {
        case 0: changed[index] = letters.randomElement(using: &random) ?? 0
        case 1: changed.remove(at: index)
        case 2: changed.insert(letters.randomElement(using: &random) ?? 0, at: index)
        case 3: changed.insert(contentsOf: document[index...].prefix(500), at: index)
        default: changed.removeSubrange(index...)
        }
        return changed
    }

    @Test func `a document that was damaged on the disk is reported by a scan, and is not loaded`() async throws {
        let appStore = try AppStore()
        let document = Self.bytes(try appStore.sign("{\"a\":\"\(appStore.sign("{}"))\"}"))
        for damage in [
            "content = x'02'", "content = x''", "content = x'07'", "content = x'0100'",
            "content = x'02ffffffffffffffffff'",
            "content = x'02000100010000'", "content = x'020001000100ff7f'",
            "content = substr(content, 1, length(content) - 1)",
            "content = x'00616263' WHERE number = 1", "content = CAST(content || 'a' AS BLOB)",
        ] {
            let storage = try SQLiteLedgerStorage.inMemory()
            try await expectBack([document], in: storage)
            // Damages the rows of both tables, since documents refer to shared blobs.
            for table in ["documents", "sharedBlobs"] {
                try await storage.execute(
                    "UPDATE \(table) SET \(damage)".replacing("number", with: table == "sharedBlobs" ? "id" : "number"))
            }
            let name = Evidence.unverified(document).provenance
            let found = try await storage.load(LedgerQuery([.document(name), .content(name)]))
            #expect(found.names.isEmpty && found.documents.isEmpty, "\(damage)")
            let scanned = try await storage.scanned()
            #expect(scanned.documents.isEmpty && scanned.damage.count == 1, "\(damage)")
        }
    }

    @Test func `a document of a kind that only a newer version knows is read, and keeps its kind`() async throws {
        let storage = try SQLiteLedgerStorage.inMemory()
        let document = Self.bytes(try AppStore().sign("{}"))
        try await expectBack([document], in: storage)
        try await storage.execute("UPDATE documents SET kind = 'consumptionReport'")
        let name = Evidence.unverified(document).provenance
        let found = try await storage.load(LedgerQuery([.content(name)])).documents[name]
        #expect(found?.kind == Open(rawValue: "consumptionReport") && found?.document == document)
        #expect(try await storage.scanned().documents == [found])
    }

    @Test(arguments: ["content = x'00616263'", "content = x'07'", "content = x''"])
    func `a damaged document is repaired when it arrives again`(damage: String) async throws {
        let storage = try SQLiteLedgerStorage.inMemory()
        let document = Self.bytes(try AppStore().sign("{}"))
        for _ in 0..<2 {
            try await expectBack([document], in: storage)
            try await expectBack([document], in: storage, new: 0)
            // The repair replaces the damaged row, so that references to it stay valid and no other row remains.
            try await expectRows(documents: 1, sharedBlobs: 1, in: storage)
            try await storage.execute("UPDATE documents SET \(damage)")
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import InputForms
import ReceiptCoding
import TestData
import TestWorld
import Testing

/// The table of forms in which people really send receipts and tokens.
@Suite struct InputFormTests {
    static let token = Result { try TestStore().sign(TestStore.transaction()) }
    static let other = Result { try TestStore().sign(TestStore.transaction("2")) }

    static func receipt() throws -> [UInt8] {
        try TestStore().sign(TestStore.receipt([TestStore.purchase(), TestStore.purchase("2")]))
    }

    /// Old transaction receipts, without a signature.
    static let old = Array(
        ##"""
        {
        	"purchase-info" = "ewoJInRyYW5zYWN0aW9uLWlkIiA9ICIxIjsKfQ==";
        	"pod" = "100";
        }
        """##.utf8)

    /// The documents of a form, or the name of its fault.
    static func outcome(of bytes: [UInt8]) -> Result<[InputDocument], InputFault> {
        Result { () throws(InputFault) in
            var documents: [InputDocument] = []
            for document in try InputForm(recognizing: bytes[...]).documents { documents.append(try document.get()) }
            return documents
        }
    }

    private static func check(_ form: SentForm, _ expected: [InputDocument]) {
        #expect(InputForm.name(of: form.bytes[...]) == form.form, "\(form.name)")
        switch outcome(of: form.bytes) {
        case .success(let documents):
            // Without comparing operands in the macro, which would print them.
            let isEqual = documents == Array(expected.prefix(form.count))
            #expect(isEqual && form.count > 0, "\(form.name)")
        case .failure(let fault): #expect(fault.name.rawValue == form.form && form.count == 0, "\(form.name)")
        }
    }

    @Test func `a token is taken in its canonical encoding, or its form is named`() throws {
        let token = try Self.token.get()
        let other = try Self.other.get()
        let documents = [InputDocument.token(Array(token.utf8)), .token(Array(other.utf8))]
        for form in SentForm.taken(token: token, other: other) { Self.check(form, documents) }
        for form in SentForm.refused(token: token) { Self.check(form, []) }
    }

    @Test func `of several documents none is dropped in silence`() throws {
        let (receipt, token) = (try Self.receipt(), try Self.token.get())
        let text = Base64.encode(receipt)
        for several in [Array("\(text)\n\(text)".utf8), receipt + receipt, receipt + token.utf8] {
            #expect(throws: InputFault.self) { try Self.outcome(of: several).get() }
        }
        let both = Array(#"{"transactionReceipt":"\#(text)","purchaseToken":"\#(token)"}"#.utf8)
        let documents = try Self.outcome(of: both).get()
        #expect(Set(documents) == [.receipt(receipt), .token(Array(token.utf8))])
        let same = Array(#"{"jwsRepresentation":"\#(token)","purchaseToken":"\#(token)"}"#.utf8)
        #expect(try Self.outcome(of: same).get().count == 1)
    }

    @Test func `bytes after a receipt are ignored, as by Apple's verifyReceipt`() throws {
        let receipt = try Self.receipt()
        for rest: [UInt8] in [[0], [0xde, 0xad], Array("\n\u{0}junk".utf8)] {
            let sent = receipt + rest
            for form in [sent, Array(Base64.encode(sent).utf8)] {
                #expect(try Self.outcome(of: form).get() == [.receipt(receipt)], "\(rest)")
            }
        }
    }

    @Test func `a receipt is taken with the same bytes, or its form is named`() throws {
        try Self.check(receipt: Self.receipt())
        for form in SentForm.taken(old: Self.old) { Self.check(form, [.transactionReceipt(Self.old)]) }
    }

    private static func check(receipt: [UInt8]) throws {
        for form in SentForm.taken(receipt: receipt) {
            check(form, [.receipt(receipt)])
        }
        for form in SentForm.refused(receipt: receipt) { check(form, []) }
    }

    @Test(
        .takesLong, .enabled(if: TestData.isThere, "\(TestData.whyNot)"),
        arguments: [
            "receipts/sandbox-2025-sha256-2-purchases.b64", "receipts/sandbox-2018-sha1-120-purchases.b64",
            "receipts/ios-production-2016-sha1-1-purchase.b64", "receipts/mac-production-2023-sha1-g7.der",
            "receipts/xcode-ber-1-purchase.b64",
        ])
    func `a genuine receipt is taken with the same bytes, or its form is named`(file: String) throws {
        try Self.check(receipt: TestData.receipt(file))
    }

    @Test(
        .enabled(if: TestData.isThere, "\(TestData.whyNot)"),
        arguments: ["jws/apple-sandbox-renewal-2023.jws", "jws/xcode-signed-transaction"])
    func `a genuine token is taken in its canonical encoding, or its form is named`(file: String) throws {
        let token = String(String(decoding: try TestData.bytes(file), as: UTF8.self).prefix { !$0.isWhitespace })
        let documents = Array(repeating: InputDocument.token(Array(token.utf8)), count: 2)
        for form in SentForm.taken(token: token, other: token) { Self.check(form, documents) }
        for form in SentForm.refused(token: token) { Self.check(form, []) }
    }

    @Test(.enabled(if: TestData.isThere, "\(TestData.whyNot)"))
    func `an old transaction receipt is taken, with and without base64`() throws {
        let list = try TestData.receipt("transaction-receipts/v2-a.b64")
        for form in SentForm.taken(old: list) { Self.check(form, [.transactionReceipt(list)]) }
    }

    @Test func `a sentence says what was found and what to send`() throws {
        let token = try Self.token.get()
        let receipt = try Self.receipt()
        let sentences: [(String, [String])] = [
            (String(Base64.encode(receipt).prefix(1000)), ["750 of its \(receipt.count) bytes", "too short?"]),
            (String(token.dropLast(6)), ["signature", "60 bytes", "ES256 has 64 bytes", "too short?"]),
            (String(token.prefix(200)), ["header", "ES256 has 64 bytes"]),
            ("verified(\(token))", ["send its jwsRepresentation"]),
            ("2000001092134138", ["quittance app-store", "backfill"]),
            ("null", ["Nothing was sent"]), (#"{"a":1}"#, ["jwsRepresentation"]), (#"{"a":"#, ["JSON"]),
        ]
        for (text, parts) in sentences {
            guard case .failure(let fault) = Self.outcome(of: Array(text.utf8)) else {
                Issue.record("\(text.prefix(20)) was taken")
                continue
            }
            #expect(parts.allSatisfy(fault.sentence.contains), "\(fault.sentence)")
            #expect(!fault.sentence.contains(token.prefix(20)))
        }
    }

    @Test(arguments: [
        ("a.b.c", "unknown"), ("eyJ.b.c.d.e", "unknown"), ("....", "unknown"), ("x", "unknown"), ("AAAA", "unknown"),
        ("NOT A RECEIPT", "unknown"), ("%", "unknown"), ("\\", "unknown"), ("\"", "unknown"), ("''", "nothing"),
        ("{", "brokenJSON"), ("[1]", "jsonWithoutDocument"), ("[[[[[]]]]]", "tooManyWrappings"),
        (#"{"status":21007}"#, "jsonWithoutDocument"), (#"{"documents":[]}"#, "nothing"),
        (#"{"signedTransactions":[]}"#, "nothing"), ("H4sI", "brokenGzip"), ("41000 0001", "unknown"),
        (#"{"alg":"ES256","x5c":[]}"#, "tokenCut"), ("<3082>", "unknown"), ("Optional(\"x\")", "swiftDescription"),
    ]) func `other text has a name too`(text: String, name: String) {
        let outcome = Self.outcome(of: Array(text.utf8))
        guard case .failure(let fault) = outcome else {
            Issue.record("\(text) was taken")
            return
        }
        #expect(fault.name.rawValue == name)
    }

    @Test func `three wrappings are undone, and a fourth is not`() throws {
        let text = Base64.encode(try Self.receipt())
        let three = #"{"document":"'%22\#(text)%22'"}"#
        #expect(InputForm.name(of: Array(three.utf8)[...]) == "tooManyWrappings")
        let four = Base64.encode(Base64.encode(Base64.encode(Base64.encode(text.utf8).utf8).utf8).utf8)
        #expect(InputForm.name(of: Array(four.utf8)[...]) == "tooManyWrappings")
        let deep = String(repeating: "[", count: 60) + String(repeating: "]", count: 60)
        let outcome = Self.outcome(of: Array(deep.utf8))
        #expect(throws: InputFault.self) { try outcome.get() }
        guard case .failure(let fault) = outcome else { return }
        #expect(fault.name == .tooManyWrappings)
    }

    @Test func `a list names each text that is no document, and takes the others`() throws {
        let token = try Self.token.get()
        let form = try InputForm(recognizing: Array("[\"\(token)\", null, \"0\", 1]".utf8)[...])
        let names = form.documents.map { document -> String? in
            guard case .failure(let fault) = document else { return nil }
            return fault.name.rawValue
        }
        #expect(names == [nil, "nothing", "xcodeTransactionId", "jsonWithoutDocument"])
    }

    @Test func `a subscription's transaction and renewal info are two documents`() throws {
        let token = try Self.token.get()
        let renewal = try TestStore().sign(TestStore.renewal())
        let item = #"{"status":1,"signedTransactionInfo":"\#(token)","signedRenewalInfo":"\#(renewal)"}"#
        for text in [item, #"{"data":[{"lastTransactions":[\#(item)]}]}"#] {
            let documents = try Self.outcome(of: Array(text.utf8)).get()
            #expect(documents == [.token(Array(token.utf8)), .token(Array(renewal.utf8))])
        }
    }

    @Test func `a few bytes of gzip do not expand to megabytes`() throws {
        let spaces = [UInt8](repeating: 0x20, count: Limits.inflated)
        #expect(InputForm.name(of: SentForm.gzip(spaces)[...]) == "brokenGzip")
    }

    /// Blanks that compress to less than a tenth, many times over, and a file whose length at the end is a lie.
    @Test(.takesLong)
    func `gzip in one input expands to one bound, however often it occurs`() throws {
        var random = SeededRandom(seed: 1)
        let blanks = Array(" \t\r\n".utf8)
        let noise = (0..<Limits.inflated / 4).map { _ in blanks[Int.random(in: 0..<4, using: &random)] }
        let bomb = SentForm.gzip(noise + [UInt8](repeating: 0x20, count: Limits.inflated - noise.count))
        #expect(InputForm.name(of: bomb[...]) == "nothing")
        let many = "[" + Array(repeating: "\"\(Base64.encode(bomb))\"", count: 50).joined(separator: ",") + "]"
        let form = try InputForm(recognizing: Array(many.utf8)[...])
        let names = form.documents.map { document -> String in
            guard case .failure(let fault) = document else { return "taken" }
            return fault.name.rawValue
        }
        #expect(names == ["nothing"] + Array(repeating: "brokenGzip", count: 49))
        for count in [256, Limits.inflated + 1] {
            let length = (0..<4).map { UInt8(truncatingIfNeeded: count >> (8 * $0)) }
            #expect(InputForm.name(of: (bomb.dropLast(4) + length)[...]) == "brokenGzip")
        }
    }

    @Test(arguments: Seeds.blocks(600, of: 100)) func `no change of any form traps`(seeds: [UInt64]) throws {
        let token = try Self.token.get()
        let receipt = try Self.receipt()
        let forms =
            SentForm.taken(receipt: receipt) + SentForm.taken(token: token, other: token)
            + SentForm.refused(receipt: receipt) + SentForm.refused(token: token) + SentForm.taken(old: Self.old)
        for seed in seeds {
            var random = SeededRandom(seed: seed)
            var bytes = forms[Int(seed % UInt64(forms.count))].bytes
            for _ in 0..<Int.random(in: 1...4, using: &random) { Self.change(&bytes, using: &random) }
            for case .success(.token(let text)) in (try? InputForm(recognizing: bytes[...]))?.documents ?? [] {
                #expect(InputForm.name(of: text[...]) == "token", "seed \(seed)")
            }
        }
    }

    /// Changes, inserts or removes some bytes.
    private static func change(_ bytes: inout [UInt8], using random: inout SeededRandom) {
        let special = Array("\\\"'%<>{}[]=.+-_/ \n\u{0}0x".utf8) + [0xff, 0xfe, 0x1f, 0x8b, 0x30, 0x80]
        let place = Int.random(in: 0...bytes.count, using: &random)
        let byte =
            Bool.random(using: &random)
            ? special[Int.random(in: 0..<special.count, using: &random)] : UInt8.random(in: 0...255, using: &random)
        switch Int.random(in: 0..<4, using: &random) {
        case 0: bytes.insert(byte, at: Int.random(in: 0...min(8, bytes.count), using: &random))
        case 1: bytes.insert(byte, at: place)
        case 2 where place < bytes.count: bytes[place] = byte
        default: bytes.removeSubrange(place..<min(bytes.count, place + Int.random(in: 0...40, using: &random)))
        }
    }
}

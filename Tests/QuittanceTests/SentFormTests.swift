// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import TestData
import TestWorld
import Testing

/// The forms in which people really send receipts and tokens, given to the commands.
@Suite(.enabled(if: TestData.isThere, "\(TestData.whyNot)")) struct SentFormTests {
    private typealias Outcome = CommandLineTests.Outcome

    private static func receipt() throws -> [UInt8] {
        try TestData.receipt("receipts/sandbox-2025-sha256-2-purchases.b64")
    }

    private static func token() throws -> String {
        let file = try TestData.bytes("jws/apple-sandbox-renewal-2023.jws")
        return String(String(decoding: file, as: UTF8.self).prefix { !$0.isWhitespace })
    }

    private static func verify(_ input: [UInt8]) throws -> Outcome {
        try CommandLineTests.run(
            ["verify", "--bundle-id", "dev.bonzer.weeka.app", "--environment", "sandbox", "--json"], input: input)
    }

    @Test(.takesLong) func `verify accepts a genuine document in any form that is taken`() throws {
        for form in SentForm.taken(receipt: try Self.receipt()) {
            let answers = try Self.verify(form.bytes).json
            #expect(answers.map { $0["verified"] } == [.bool(true)], "\(form.name)")
            #expect(answers.first?["kind"]?.string == "receipt", "\(form.name)")
        }
        let token = try Self.token()
        for form in SentForm.taken(token: token, other: token) {
            let answers = try Self.verify(form.bytes).json
            #expect(answers.map { $0["verified"] } == Array(repeating: .bool(true), count: form.count), "\(form.name)")
            let numbers: [Int64?] = form.count == 1 ? [nil] : [1, 2]
            #expect(answers.map { $0["document"]?.integer } == numbers, "\(form.name)")
        }
    }

    @Test(.takesLong) func `verify and inspect name a form that is not taken`() throws {
        for form in SentForm.refused(receipt: try Self.receipt()) + SentForm.refused(token: try Self.token()) {
            let outcome = try Self.verify(form.bytes)
            #expect(outcome.status == 2 && !outcome.error.isEmpty, "\(form.name)")
            #expect(try outcome.json.map { $0["form"]?.string } == [form.form], "\(form.name)")
            #expect(try outcome.json.map { $0["code"]?.string } == ["malformed"], "\(form.name)")
            let shown = try CommandLineTests.run(["inspect", "--json"], input: form.bytes)
            // JSON without a signature can be shown.
            #expect(try shown.json.allSatisfy { $0["form"] != nil || $0["kind"] != nil }, "\(form.name)")
        }
    }

    @Test func `a line may be a list, and each answer names the line and the document`() throws {
        let token = try Self.token()
        let input = "\"\(token)\"\n[\"\(token)\",\"0\"]\nnonsense!\n"
        let outcome = try Self.verify(Array(input.utf8))
        #expect(try outcome.json.map { $0["line"]?.integer } == [1, 2, 2, 3])
        #expect(try outcome.json.map { $0["document"]?.integer } == [nil, 1, 2, nil])
        #expect(try outcome.json.map { $0["form"]?.string } == [nil, nil, "xcodeTransactionId", "unknown"])
        #expect(outcome.error.contains("quittance: line 2, document 2: "))
    }

    @Test func `inspect shows an answer of verifyReceipt, and verify the receipt in it`() throws {
        let text = Base64.encode(try Self.receipt())
        let answer = Array(
            #"{"status":0,"environment":"Sandbox","receipt":{"bundle_id":"a"},"latest_receipt":"\#(text)"}"#.utf8)
        let shown = try CommandLineTests.run(["inspect", "--json"], input: answer).json
        #expect(shown.map { $0["kind"]?.string } == ["VerifyReceiptResponse"])
        #expect(try Self.verify(answer).json.first?["kind"]?.string == "receipt")
    }
}

/// What `inspect` takes JSON for.
@Suite struct InspectedJSONTests {
    @Test(arguments: [
        (#"{"receipt":{"bundle_id":"a","in_app":[]},"environment":"Production","status":0}"#, false),
        (#"{"status":21007}"#, false), (#"{"status":21003,"environment":"Sandbox"}"#, false),
        (#"{"receipt":{"bid":"a","product_id":"b"},"status":0}"#, true),
        (#"{"status":21006,"receipt":{"bid":"a"},"latest_expired_receipt_info":{"bid":"a"}}"#, true),
    ]) func `an answer is in the iOS 6 style only if its members are`(answer: String, isOld: Bool) throws {
        let outcome = try CommandLineTests.run(["inspect", "--json"], input: Array(answer.utf8))
        let kind = isOld ? "VerifyTransactionReceiptResponse" : "VerifyReceiptResponse"
        #expect(try outcome.json.first?["kind"]?.string == kind)
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import NIOCore
import PurchaseLedger
import TestWorld
import Testing

/// The forms in which people really send receipts and tokens: what a submission takes, what it names, and what the log
/// calls them.
@Suite struct SentFormTests {
    private static let receipt = Result {
        try TestStore().sign(TestStore.receipt([TestStore.purchase(), TestStore.purchase("2")]))
    }
    private static let tokens = Result {
        let store = try TestStore()
        return try ["1", "2"].map { try store.sign(TestStore.transaction($0)) }
    }

    /// The body of a submission of one string.
    private static func body(_ string: String) -> String {
        JSONValue.object([.init("document", .string(string))]).compactText
    }

    /// What is left of submitting a string: the answer, and the stored documents.
    private static func submission(of string: String) async throws -> [JSONValue] {
        let world = try await LedgerRoutesTests.World()
        let (status, answer) = try await world.send(.post, "/v1/customers/anna/purchases", body(string))
        #expect(status == .ok, "\(answer.compactText)")
        let ids = Set(answer["customer"]?["purchases"]?.array?.compactMap { $0["evidence"]?["id"]?.string } ?? [])
        var documents: [JSONValue] = []
        for id in ids.sorted() { documents.append(try await world.send(.get, "/v1/evidence/\(id)").1) }
        return [answer] + documents
    }

    @Test func `a receipt in any form that is taken leaves the same answer and stored document`() async throws {
        let receipt = try Self.receipt.get()
        let plain = try await Self.submission(of: Base64.encode(receipt))
        #expect(plain.count == 2 && plain[0]["recorded"]?.integer == 1)
        for form in SentForm.taken(receipt: receipt) {
            guard let text = form.text else { continue }
            let isSame = try await Self.submission(of: text) == plain
            #expect(isSame, "\(form.name)")
        }
    }

    @Test func `a token in any form that is taken leaves the same answer and stored document`() async throws {
        let tokens = try Self.tokens.get()
        let plain = try await Self.submission(of: tokens[0])
        #expect(plain.count == 2)
        for form in SentForm.taken(token: tokens[0], other: tokens[1]) {
            let found = try await Self.submission(of: #require(form.text))
            #expect(found[0]["recorded"]?.integer == Int64(form.count), "\(form.name)")
            let isSame = form.count == 2 || found == plain
            #expect(isSame, "\(form.name)")
        }
    }

    @Test func `a form that is not taken is malformed by its name, in the answer and in the log`() async throws {
        let world = try await RequestLogTests.World()
        let receipt = try Self.receipt.get()
        let tokens = try Self.tokens.get()
        let key = world.world.keys[.client] ?? ""
        for form in SentForm.refused(receipt: receipt) + SentForm.refused(token: tokens[0]) {
            let answer = try await world.send(
                .post, "/v1/customers/anna/purchases", Self.body(#require(form.text)),
                headers: [.authorization: "Bearer \(key)"])
            let error = try JSONValue(parsing: answer.body.readableBytesView)["error"]
            #expect(answer.status == .badRequest && error?["code"]?.string == "malformed", "\(form.name)")
            #expect(error?["form"]?.string == form.form, "\(form.name)")
            #expect(error?["message"]?.string?.hasPrefix("document: ") == true, "\(form.name)")
            #expect(try world.lines().last?["form"]?.string == form.form, "\(form.name)")
        }
    }

    @Test func `verifyReceipt takes no other form than the App Store, and logs the name`() async throws {
        let world = try await RequestLogTests.World()
        let receipt = try Self.receipt.get()
        let tokens = try Self.tokens.get()
        let forms =
            SentForm.taken(receipt: receipt) + SentForm.refused(receipt: receipt)
            + SentForm.taken(token: tokens[0], other: tokens[1]) + SentForm.refused(token: tokens[0])
        for form in forms {
            guard let text = form.text else { continue }
            let body = JSONValue.object([.init("receipt-data", .string(text))]).compactText
            let answer = try await world.send(.post, "/verifyReceipt", body)
            let status = try JSONValue(parsing: answer.body.readableBytesView)["status"]?.integer
            let line = try #require(try world.lines().last)
            #expect(status == (form.form == "receipt" ? 0 : 21002), "\(form.name)")
            #expect(line["form"]?.string == (status == 0 ? nil : form.form), "\(form.name)")
            #expect(!line.compactText.contains(tokens[0].prefix(40)))
        }
    }

    @Test(arguments: [
        ("{}", "nothing"), (#"{"receipt-data":null}"#, "nothing"), (#"{"transactionReceipt":"x"}"#, "unknown"),
        (#"{"receipt-data":1}"#, "jsonWithoutDocument"), ("[]", "nothing"),
    ]) func `without receipt-data, the body's own form is logged`(body: String, form: String) async throws {
        let world = try await RequestLogTests.World()
        try await world.send(.post, "/verifyReceipt", body)
        #expect(try world.lines().last?["form"]?.string == form)
    }

    @Test func `a list in a string counts each document, before any signature is checked`() async throws {
        let world = try await LedgerRoutesTests.World()
        let token = try #require(try Self.tokens.get().first)
        let forged = token.dropLast(8) + "AAAAAAAA"
        for (count, code) in [(20, "invalidSignature"), (21, "invalidRequest")] {
            let list = JSONValue.array(Array(repeating: .string(String(forged)), count: count)).compactText
            let (status, answer) = try await world.send(
                .post, "/v1/customers/anna/purchases", Self.body(list), key: .client)
            #expect(status == .badRequest && answer["error"]?["code"]?.string == code)
        }
    }

    @Test func `the message names the text in a list that is no document, or is refused`() async throws {
        let world = try await LedgerRoutesTests.World()
        let token = try #require(try Self.tokens.get().first)
        let other = try world.transaction { $0.bundleId = "com.example.two" }
        for (list, code) in [("[\"\(token)\",\"0\"]", "malformed"), ("[\"\(token)\",\"\(other)\"]", "otherApp")] {
            let body = JSONValue.object([.init("documents", .array([.string(token), .string(list)]))]).compactText
            let (_, answer) = try await world.send(.post, "/v1/customers/anna/purchases", body)
            #expect(answer["error"]?["code"]?.string == code)
            #expect(answer["error"]?["message"]?.string?.hasPrefix("documents[1][1]: ") == true)
        }
    }

    @Test func `renewal info is recorded beside a transaction of its subscription, and refused alone`() async throws {
        let world = try await LedgerRoutesTests.World()
        let token = try #require(try Self.tokens.get().first)
        let renewal = try world.store.sign(TestStore.renewal(renews: false))
        let item = #"{"status":1,"signedTransactionInfo":"\#(token)","signedRenewalInfo":"\#(renewal)"}"#
        let answer = #"{"data":[{"lastTransactions":[\#(item)]}]}"#
        let (status, body) = try await world.send(.post, "/v1/customers/anna/purchases", Self.body(answer))
        #expect(status == .ok && body["recorded"]?.integer == 2)
        #expect(body["customer"]?["subscriptions"]?.array?.first?["willRenew"] == .bool(false))
        let (_, alone) = try await world.send(.post, "/v1/customers/anna/purchases", Self.body(renewal))
        #expect(alone["error"]?["code"]?.string == "otherKind")
    }

    @Test func `an old transaction receipt and a notification are taken, and refused for what they are`() async throws {
        let world = try await LedgerRoutesTests.World()
        let old = Base64.encode(#"{ "purchase-info" = "ewoJInRyYW5zYWN0aW9uLWlkIiA9ICIxIjsKfQ=="; }"#.utf8)
        let notification = try world.notification("TEST")
        for document in [old, notification] {
            let (_, answer) = try await world.send(.post, "/v1/customers/anna/purchases", Self.body(document))
            #expect(answer["error"]?["code"]?.string == "otherKind", "\(answer.compactText)")
        }
        let (_, wrong) = try await world.send(
            .post, "/v1/customers/anna/purchases",
            Self.body(world.store.sign(#"{"receiptType":"Production","receiptCreationDate":1700000000000}"#)))
        #expect(wrong["error"]?["code"]?.string == "otherApp")
    }
}

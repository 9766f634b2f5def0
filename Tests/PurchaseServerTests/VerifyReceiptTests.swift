// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import NIOCore
import PurchaseServer
import TestData
import Testing

/// verifyReceipt without a ledger, against answers of the App Store.
@Suite struct VerifyReceiptTests {
    static func application(
        _ environment: AppStoreModel.Environment = .production
    ) -> some ApplicationProtocol {
        let server = ServerApplication(
            environment: environment, requestSeed: 1, now: { Timestamp(milliseconds: 1_595_440_486_402) },
            logger: .quiet)
        return checkedApplication(of: server)
    }

    static func post(
        _ path: String, _ body: String, to application: some ApplicationProtocol
    ) async throws -> TestResponse {
        try await application.test(.router) { client in
            try await client.execute(uri: path, method: .post, body: ByteBuffer(string: body))
        }
    }

    static func request(_ file: String) throws -> String {
        let receipt = String(decoding: try TestData.bytes(file), as: UTF8.self)
        return #"{"receipt-data":"\#(receipt)","password":"","other":1}"#
    }

    /// The names of all members at any depth, in order.
    private static func names(_ json: JSONValue) -> [String] {
        (json.members ?? []).flatMap { [$0.name] + names($0.value) } + (json.array ?? []).flatMap(names)
    }

    @Test(.enabled(if: TestData.isThere, "\(TestData.whyNot)"))
    func `the App Store's own answer is reproduced`() async throws {
        let expected = try JSONValue(parsing: TestData.bytes("golden/sandbox-2020-9-purchases.answer.json"))
        let response = try await Self.post(
            "/sandbox/verifyReceipt", Self.request("golden/sandbox-2020-9-purchases.b64"), to: Self.application())
        #expect(response.status == .ok)
        #expect(response.headers[.contentType] == "application/json")
        let answer = try JSONValue(parsing: response.body.readableBytesView)
        #expect(answer["status"] == .number("0"))
        #expect(answer["environment"] == .string("Sandbox"))
        let found = try #require(answer["receipt"])
        let receipt = try #require(expected["receipt"])
        // The dates and the order of the members are equal too: the clock above has the time at which Apple answered.
        #expect(found == receipt)
        #expect(Self.names(found) == Self.names(receipt))
        #expect(found["in_app"]?.array?.count == 9)
    }

    @Test(
        .enabled(if: TestData.isThere, "\(TestData.whyNot)"),
        arguments: [
            ("/verifyReceipt", .production, "receipts/ios-production-2016-sha1-1-purchase.b64", 0),
            ("/verifyReceipt", .production, "golden/sandbox-2020-9-purchases.b64", 21007),
            ("/verifyReceipt", .sandbox, "golden/sandbox-2020-9-purchases.b64", 0),
            ("/verifyReceipt", .sandbox, "receipts/ios-production-2016-sha1-1-purchase.b64", 21008),
            ("/sandbox/verifyReceipt", .production, "receipts/ios-production-2016-sha1-1-purchase.b64", 21008),
            ("/sandbox/verifyReceipt", .production, "receipts/sandbox-2020-sha1-187-purchases.b64", 0),
            ("/verifyReceipt", .production, "receipts/xcode-ber.b64", 21003),
            ("/verifyReceipt", .production, "jws/transactionInfo", 21002),
        ] as [(String, AppStoreModel.Environment, String, Int)])
    func `a receipt gets the status of the endpoint that it was sent to`(
        path: String, environment: AppStoreModel.Environment, file: String, status: Int
    ) async throws {
        let response = try await Self.post(path, Self.request(file), to: Self.application(environment))
        let answer = try JSONValue(parsing: response.body.readableBytesView)
        #expect(response.status == .ok)
        #expect(answer["status"]?.integer == Int64(status))
        #expect((answer["receipt"] != nil) == (status == 0))
    }

    @Test(arguments: [
        ("", 21000), ("{", 21000), ("not json", 21000), ("\u{0}", 21000), ("{}", 21002), ("[]", 21002), ("null", 21002),
        (#"{"receipt-data":null}"#, 21002), (#"{"receipt-data":1}"#, 21002), (#"{"receipt-data":[]}"#, 21002),
        (#"{"receipt-data":""}"#, 21002), (#"{"receipt-data":"AAA"}"#, 21002), (#"{"receipt-data":"AA=="}"#, 21002),
        (#"{"receipt-data":"AA==\n"}"#, 21002), (#"{"receipt-data":"MIAA"}"#, 21002),
        (#"{"receipt-data":"AA==","receipt-data":1}"#, 21002),
        (String(repeating: "[", count: 100_000), 21000),
    ])
    func `a request without a receipt gets Apple's status`(body: String, status: Int) async throws {
        let response = try await Self.post("/verifyReceipt", body, to: Self.application())
        #expect(response.status == .ok)
        #expect(String(buffer: response.body) == #"{"status":\#(status)}"#)
    }

    /// A change to genuine base64, and the App Store's status for it.
    struct Base64Case: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var status: Int
        var change: @Sendable (String) -> String

        init(_ description: String, _ status: Int, _ change: @escaping @Sendable (String) -> String) {
            testDescription = description
            self.status = status
            self.change = change
        }
    }

    static let base64Cases = [
        Base64Case("padding lost", 21002) { $0.replacing("=", with: "") },
        Base64Case("padding added", 21002) { $0 + "=" },
        Base64Case("base64url", 21002) { $0.replacing("+", with: "-").replacing("/", with: "_") },
        Base64Case("a space before", 21002) { " " + $0 },
        Base64Case("a line end after", 21002) { $0 + #"\n"# },
        Base64Case("a data: prefix", 21002) { "data:" + $0 },
        Base64Case("percent-encoded", 21002) { $0.replacing("=", with: "%3D") },
        Base64Case("JSON escapes", 0) { $0.replacing("/", with: #"\/"#) },
        Base64Case("non-zero trailing bits", 0) { $0.dropLast(3) + "R==" },
        Base64Case("bytes after the end", 0) {
            Data((Data(base64Encoded: $0) ?? Data()) + [1, 2]).base64EncodedString()
        },
        Base64Case("four letters changed in the middle", 21003) {
            String($0.prefix(2000)) + "AAAA" + $0.dropFirst(2004)
        },
    ]

    @Test(.enabled(if: TestData.isThere, "\(TestData.whyNot)"), arguments: base64Cases)
    func `base64 is as strict as the App Store's`(base64Case: Base64Case) async throws {
        let receipt = String(
            decoding: try TestData.bytes("receipts/sandbox-2025-sha256-2-purchases.b64"), as: UTF8.self)
        let changed = base64Case.change(receipt)
        try #require(changed != receipt)
        let response = try await Self.post(
            "/sandbox/verifyReceipt", #"{"receipt-data":"\#(changed)"}"#, to: Self.application())
        let answer = try JSONValue(parsing: response.body.readableBytesView)
        #expect(answer["status"]?.integer == Int64(base64Case.status))
    }

    @Test(arguments: [(3_145_728, HTTPResponse.Status.ok), (3_145_729, .contentTooLarge)])
    func `a body is accepted up to the App Store's limit`(size: Int, status: HTTPResponse.Status) async throws {
        let body = #"{"receipt-data":""}"# + String(repeating: " ", count: size - 19)
        let response = try await Self.post("/verifyReceipt", body, to: Self.application())
        #expect(response.status == status)
    }

    @Test(arguments: [HTTPRequest.Method.get, .put, .delete, .patch])
    func `other methods than POST get status 21000`(method: HTTPRequest.Method) async throws {
        try await Self.application().test(.router) { client in
            let response = try await client.execute(uri: "/verifyReceipt", method: method)
            #expect(String(buffer: response.body) == #"{"status":21000}"#)
        }
    }

    @Test func `health is answered, and an unknown route is an error with a code`() async throws {
        try await Self.application().test(.router) { client in
            let health = try await client.execute(uri: "/health/live", method: .get)
            #expect(health.status == .ok)
            let missing = try await client.execute(uri: "/nothing", method: .get)
            #expect(missing.status == .notFound)
            let error = try JSONValue(parsing: missing.body.readableBytesView)["error"]
            #expect(error?["code"] == .string("notFound"))
            #expect(error?["retryable"] == .bool(false))
        }
    }

    // Long enough for a machine that is busy with the rest of the suite: only a hanging server exceeds it.
    @Test(.timeLimit(.minutes(60)))
    func `a server with a socket continues after bad requests`() async throws {
        try await Self.application().test(.live) { client in
            for body in ["", "[[[[", String(repeating: "0", count: 3_145_729)] {
                _ = try? await client.execute(uri: "/verifyReceipt", method: .post, body: ByteBuffer(string: body))
            }
            let health = try await client.execute(uri: "/health/live", method: .get)
            #expect(health.status == .ok)
        }
    }
}

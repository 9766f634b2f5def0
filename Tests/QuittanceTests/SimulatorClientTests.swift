// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import TestData
import Testing

/// Clients that are not ours, against `quittance simulate`: Apple's Python library, a verifyReceipt client, OpenSSL,
/// and the examples in `Examples/Simulator`. Against `quittance sign`: cryptography, PyJWT and Apple's library. Each is
/// a Python script in Tests/SimulatorClients, or an example.
@Suite(.pythonClients) struct SimulatorClientTests {
    /// The arguments that run a script.
    private static func arguments(_ script: String) -> [String] {
        [PythonClients.scripts.appendingPathComponent(script).path, CommandLineTests.program.path]
    }

    /// The result of a script: the JSON document that it prints.
    private static func run(_ script: String) throws -> JSONValue {
        try JSONValue(parsing: PythonClients.current().python(arguments(script)).utf8)
    }

    // MARK: - Apple's library

    /// Some of the notifications that arrive, with each kind of payload among them.
    private static let notifications: Set<String> = [
        "SUBSCRIBED.INITIAL_BUY", "DID_RENEW", "DID_RENEW.BILLING_RECOVERY", "DID_FAIL_TO_RENEW.GRACE_PERIOD",
        "DID_CHANGE_RENEWAL_STATUS.AUTO_RENEW_DISABLED", "PRICE_INCREASE.PENDING", "ONE_TIME_CHARGE",
        "CONSUMPTION_REQUEST", "REFUND", "REFUND_DECLINED", "REFUND_REVERSED", "REVOKE", "RENEWAL_EXTENDED",
        "RENEWAL_EXTENSION.SUMMARY", "EXTERNAL_PURCHASE_TOKEN.CREATED", "RESCIND_CONSENT", "TEST",
    ]

    @Test(.takesLong) func `Apple's library calls each of its methods, and verifies all that is signed`() throws {
        let result = try Self.run("apple_library.py")
        let names = { (member: String) in (result[member]?.members ?? []).map(\.name) }
        // The script fails if a method of the library is missing.
        #expect((result["methods"]?.array ?? []).count >= 30)
        #expect(
            Set(names("signed")) == [
                "signedTransactionInfo", "signedTransactions", "signedRenewalInfo", "signedAppTransactionInfo",
                "signedPayload", "jwsRepresentation",
            ])
        #expect(Set(names("types")).isSuperset(of: Self.notifications))
        #expect(Set(names("kinds")) == ["data", "summary", "externalPurchaseToken", "appData"])
        print("Apple's library called and verified \(result.compactText)")
    }

    /// The codes of the routes for groups of customers, which the simulator does not have.
    private static let codesOfGroups: Set<APIErrorCode> = [.invalidLimit, .invalidGroupId, .groupNotFound]

    @Test(.takesLong) func `Apple's library meets every numbered error of the simulator's routes`() throws {
        let result = try Self.run("error_codes.py")
        let codes = ["causes", "faults"].map { member in
            Set((result[member]?.array ?? []).compactMap { $0.integer.flatMap { APIErrorCode(rawValue: $0) } })
        }
        print("Apple's library met, by a cause and by a fault: \(result.compactText)")
        #expect(codes[0].isDisjoint(with: codes[1]))
        #expect(codes[0].union(codes[1]) == Set(APIErrorCode.allCases).subtracting(Self.codesOfGroups))
    }

    // MARK: - Receipts

    @Test(.takesLong) func `inapppy validates receipts by the simulator and by a server, which agree`() throws {
        let result = try Self.run("verify_receipt.py")
        #expect(["production", "sandbox"].allSatisfy { result[$0]?.integer ?? 0 >= 4 }, "\(result.compactText)")
    }

    @Test(
        .takesLong,
        .enabled(
            if: PythonClients.has("openssl", "version") && PythonClients.has("python3", "--version"),
            "there is no openssl or python3"))
    func `OpenSSL accepts receipts, and the certificates of tokens with each signer`() throws {
        let output = try PythonClients.current().run(["python3"] + Self.arguments("openssl.py"))
        let result = try JSONValue(parsing: output.utf8)
        #expect(result["leaves"]?.integer == 3 && result["intermediates"]?.integer == 2, "\(result.compactText)")
        #expect(result["receipts"]?.integer == 8)
    }

    // MARK: - The description of the API

    @Test(.takesLong)
    func `a server is as docs/openapi.json says, for schemathesis and for a client that openapi-python-client makes`()
        throws
    {
        let result = try Self.run("openapi.py")
        #expect(result["answers"]?.integer ?? 0 >= 70, "\(result.compactText)")
    }

    /// `make openapi` writes the examples.
    @Test func `each example of an answer is the one that a server gives`() throws {
        let result = try Self.run("api_world.py")
        #expect(result["examples"]?.integer ?? 0 >= 30, "\(result.compactText)")
    }

    // MARK: - Signatures

    @Test func `cryptography and PyJWT verify all that is signed from the public key alone`() throws {
        let result = try Self.run("signatures.py")
        let expected = [
            "promotional-offer 1": (2, 14), "promotional-offer": (2, 4), "introductory-offer-eligibility": (2, 4),
            "advanced-commerce-api": (1, 2),
        ]
        for (kind, counts) in expected {
            #expect(result["valid"]?[kind]?.integer == Int64(counts.0), "\(kind)")
            #expect(result["refused"]?[kind]?.integer == Int64(counts.1), "\(kind)")
        }
    }

    // MARK: - A browser

    @Test(.takesLong) func `each button of the page does in a browser what it says`() throws {
        let result = try Self.run("page.py")
        if let reason = result["missing"]?.string { try Test.cancel("There is no browser: \(reason)") }
        let source = try Project.text("Sources/SimulatorServer/ControlPage.swift")
        // Both kinds of buttons: of the document, and made by its script.
        let labels =
            source.matches(of: /<button[^>]*>([^<]+)<\/button>/).map { String($0.1) }
            + source.matches(of: /button\("([^"]+)"/).map { String($0.1) } + ["Ask to Buy", "No Ask to Buy"]
        let clicked = (result["clicked"]?.array ?? []).compactMap(\.string)
        #expect(labels.count > 25)
        for label in labels {
            #expect(clicked.contains { $0 == label || label.hasSuffix(" ") && $0.hasPrefix(label) }, "\(label)")
        }
    }

    // MARK: - The examples

    @Test func `the example of a test in Python passes`() throws {
        let clients = try PythonClients.current()
        try clients.write(try Project.text("Examples/Simulator/test_purchases.py"), to: "test_purchases.py")
        try clients.python(["-m", "unittest", "test_purchases.py"])
    }

    @Test(.enabled(if: PythonClients.has("node", "--test", "--version"), "there is no node"))
    func `the example of a test in Node passes`() throws {
        let clients = try PythonClients.current()
        try clients.write(try Project.text("Examples/Simulator/purchases.test.mjs"), to: "purchases.test.mjs")
        try clients.run(["node", "--test", "purchases.test.mjs"])
    }
}

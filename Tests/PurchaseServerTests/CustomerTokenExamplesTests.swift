// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import NIOCore
import PurchaseLedger
import PurchaseServer
import TestData
import TestProcess
import Testing

/// Tests the examples in `docs/customer-proof.md`: sends their tokens to a server that uses the machine's clock.
@Suite struct CustomerTokenExamplesTests {
    private static let secret = "a secret of enough bytes: 0123456789"

    /// The example in a language, as on the page.
    private static func example(_ language: String) throws -> String {
        try #require(try Project.code(language, in: "docs/customer-proof.md").first)
    }

    private struct Failed: Error, CustomStringConvertible {
        var description: String
    }

    /// Runs a program and returns its standard output. If it fails, the error has its standard error.
    private static func run(_ arguments: [String], in folder: URL? = nil) throws -> String {
        let outcome = try TestProcess.run(arguments, in: folder)
        guard outcome.status == 0 else { throw Failed(description: "\(arguments): \(outcome.error)") }
        return outcome.output.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    private static func has(_ program: String...) -> Bool { (try? run(program)) != nil }

    /// The statuses of two requests with a token: for the customer `id`, and for another customer.
    private static func statuses(
        _ token: String, _ proof: CustomerProof?, for id: String = "anna"
    ) async throws -> [Int] {
        let world = try await LedgerRoutesTests.World(proof: proof)
        let server = ServerApplication(
            ledger: world.server.ledger, requestSeed: 1,
            now: { Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) }, logger: world.server.logger)
        let name = try #require(HTTPField.Name("Quittance-Customer-Token"))
        let headers: HTTPFields = [.authorization: "Bearer \(world.keys[.client] ?? "")", name: token]
        return try await checkedApplication(of: server).test(.router) { client in
            var statuses: [Int] = []
            for id in [id, "bert"] {
                try await statuses.append(
                    client.execute(uri: "/v1/customers/\(id)", method: .get, headers: headers).status.code)
            }
            return statuses
        }
    }

    /// The statuses for a valid token: 200 for its customer, and 403 for another customer.
    private static let accepted = [200, 403]

    @Test func `the Swift example is that of the page, and its token is accepted`() async throws {
        let source = try Project.text("Tests/PurchaseServerTests/CustomerTokenExample.swift")
        #expect(source.hasSuffix(try Self.example("swift")))
        let token = try customerToken(for: "anna", secret: Self.secret)
        #expect(try await Self.statuses(token, CustomerProof(secret: Self.secret)) == Self.accepted)
        #expect(
            try await Self.statuses(token, CustomerProof(secret: Self.secret + "!")) == [401, 401])
    }

    @Test(.enabled(if: has("node", "--version"), "there is no node"))
    func `the token of the Node example is accepted`() async throws {
        let script = try Self.example("js") + "\nconsole.log(customerToken('anna', '\(Self.secret)'))"
        let token = try Self.run(["node", "-e", script])
        #expect(try await Self.statuses(token, CustomerProof(secret: Self.secret)) == Self.accepted)
    }

    @Test(.enabled(if: has("openssl", "version"), "there is no openssl"))
    func `the token of the shell example is accepted`() async throws {
        let script = try Self.example("sh") + "\ncustomer_token anna '\(Self.secret)'"
        let token = try Self.run(["sh", "-c", script])
        #expect(try await Self.statuses(token, CustomerProof(secret: Self.secret)) == Self.accepted)
    }

    @Test(.takesLong)
    func `the tokens of the Python example are accepted, and PyJWT reads the server's own`() async throws {
        let folder = try TemporaryFolder()
        func python(_ script: String) throws -> String {
            try Self.run([TestPython.path(), "-c", try Self.example("python") + "\n" + script], in: folder.url)
        }
        let token = try python("print(customer_token('anna', '\(Self.secret)'))")
        let proof = try #require(CustomerProof(secret: Self.secret))
        #expect(try await Self.statuses(token, proof) == Self.accepted)
        // A quotation mark, a letter outside ASCII, and a character outside the Basic Multilingual Plane.
        let id = #"an"na é 😀"#
        let other = try python(#"print(customer_token('an"na é 😀', '\#(Self.secret)'))"#)
        let path = try #require(id.addingPercentEncoding(withAllowedCharacters: .alphanumerics))
        #expect(try await Self.statuses(other, proof, for: path) == Self.accepted)

        // In the other direction, PyJWT reads a token that `CustomerProof` creates.
        let expires = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 + 3600) * 1000)
        let own = try #require(proof.token(for: id, expires: expires))
        let read = try python("print(jwt.decode('\(own)', '\(Self.secret)', algorithms=['HS256']))")
        #expect(read == "{'sub': 'an\"na é 😀', 'exp': \(expires.milliseconds / 1000)}")

        _ = try Self.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", "customer-proof.pem"], in: folder.url)
        let pem = try Self.run(["openssl", "pkey", "-in", "customer-proof.pem", "-pubout"], in: folder.url)
        let signed = try python("print(customer_token('anna', open('customer-proof.pem').read(), 'EdDSA'))")
        let lines: [Substring] = pem.split(separator: "\n")
        for key in [pem, String(lines[1])] {
            #expect(try await Self.statuses(signed, CustomerProof(publicKey: key)) == Self.accepted)
        }
        #expect(try await Self.statuses(signed, proof) == [401, 401])
    }
}

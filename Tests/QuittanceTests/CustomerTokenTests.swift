// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import NIOHTTP1
import TestData
import Testing

/// Tests `quittance keys customer-token`, and a server that accepts its tokens.
@Suite struct CustomerTokenTests {
    private static let configuration = """
        {"apps": [
            {"bundleId": "com.example.one", "customerProof": {"secret": "a secret of enough bytes: 0123456789"}},
            {"bundleId": "com.example.two"},
            {"bundleId": "com.example.three",
             "customerProof": {"publicKey": "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE="}}
        ]}
        """

    /// Calls `body` with a configuration file of three apps. Only the first has a secret for tokens.
    private static func withConfiguration(_ body: (_ file: String, _ folder: URL) async throws -> Void) async throws {
        let folder = try TemporaryFolder()
        let file = folder.url.appendingPathComponent("quittance.json")
        try Data(configuration.utf8).write(to: file)
        try await body(file.path, folder.url)
    }

    @Test func `with the printed token, the app's client key may read that customer and no other`() async throws {
        try await Self.withConfiguration { file, folder in
            let options = ["--config", file, "--database", "sqlite:\(folder.path)/ledger.sqlite"]
            let server = try await ServerProcess(options, in: folder)
            defer { _ = server.terminate() }
            let app = ["--bundle-id", "com.example.one"]
            let key = try CommandLineTests.key(app + options, role: "client")
            let printed = try CommandLineTests.run(
                ["keys", "customer-token", "--customer", "anna", "--expires-in", "24"] + app + options)
            #expect(printed.status == 0, "\(printed.error)")
            let token = printed.output.trimmingCharacters(in: .whitespacesAndNewlines)
            let path = "/v1/customers/anna"
            #expect(
                try await server.send(.GET, path, key: key).json["error"]?["code"]?.string == "customerTokenRequired")
            #expect(try await server.send(.GET, path, key: key, token: token).status == 200)
            #expect(try await server.send(.GET, "/v1/customers/bert", key: key, token: token).status == 403)
        }
    }

    @Test(arguments: [
        (["--customer", "anna"], "Which app"),
        (["--customer", "anna", "--bundle-id", "com.example.two"], "customerProof"),
        (["--customer", "anna", "--bundle-id", "com.example.three"], "private key"),
        (["--customer", "anna", "--bundle-id", "com.example.four"], "has no app com.example.four"),
        (["--bundle-id", "com.example.one"], "--customer"),
        (["--customer", "", "--bundle-id", "com.example.one"], "1 to 256 bytes"),
        (["--customer", "a\u{85}", "--bundle-id", "com.example.one"], "--customer: U+0085 at position 2"),
        (["--customer", "anna", "--expires-in", "25", "--bundle-id", "com.example.one"], "1 to 24"),
        (["--customer", "anna", "--expires-in", "0", "--bundle-id", "com.example.one"], "1 to 24"),
    ])
    func `errors name the reason, and never the secret`(arguments: [String], message: String) async throws {
        try await Self.withConfiguration { file, _ in
            let outcome = try CommandLineTests.run(["keys", "customer-token", "--config", file] + arguments)
            #expect(outcome.status == 2)
            #expect(outcome.error.contains(message), "\(outcome.error)")
            #expect(outcome.output.isEmpty)
            #expect(!outcome.error.contains("0123456789"))
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation
import NIOHTTP1
import TestData
import Testing

/// Tests `quittance sign`, and a server that reads its keys again. `SimulatorClientTests` has the signatures judged.
@Suite(.timeLimit(.minutes(60))) struct SignCommandTests {
    /// A folder with a key file, and a configuration whose only app has that key.
    private struct Place {
        let folder: URL
        var key: URL { folder.appendingPathComponent("key.p8") }
        var configuration: URL { folder.appendingPathComponent("quittance.json") }

        func writeKey(mode: Int = 0o600) throws {
            var random = SystemRandomNumberGenerator()
            try Data(try StoreKey(using: &random).pem.utf8).write(to: key)
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: key.path)
        }

        func writeConfiguration(keyId: String) throws {
            let text = """
                {"apps": [{"bundleId": "com.example", "inAppPurchaseKey":
                    {"file": "\(key.path)", "keyId": "\(keyId)", "issuerId": "57246542-96fe-4a63-a053-0824d011072a"}}]}
                """
            try Data(text.utf8).write(to: configuration)
        }
    }

    private static func withPlace(_ body: (Place) async throws -> Void) async throws {
        let folder = try TemporaryFolder()
        let place = Place(folder: folder.url)
        try place.writeKey()
        try place.writeConfiguration(keyId: "FIRSTKEY01")
        try await body(place)
    }

    private static let offer = ["sign", "promotional-offer", "--product-id", "pro", "--offer-identifier", "stay3"]
    private static let nonce = "5b1f8f0e-0c0f-4f0e-8a57-2c8f4c9d1e01"

    @Test func `a signature is one JSON document with the given nonce and time`() async throws {
        try await Self.withPlace { place in
            let options = [
                "--config", place.configuration.path, "--nonce", Self.nonce, "--at", "2026-01-31T12:00:00Z",
            ]
            let outcome = try CommandLineTests.run(Self.offer + options)
            #expect(outcome.status == 0 && outcome.error.isEmpty, "\(outcome.error)")
            let token = try JWS(try #require(outcome.json.first?["compactJWS"]?.string).utf8)
            let claims = try JSONValue(parsing: token.payload)
            #expect(claims["nonce"]?.string == Self.nonce && claims["iat"]?.integer == 1_769_860_800)
            #expect(try token.header().kid == "FIRSTKEY01")
            let old = try CommandLineTests.run(Self.offer + options + ["--signature-version", "1"])
            #expect(try old.json.first?["timestamp"]?.integer == 1_769_860_800_000)
        }
    }

    @Test(arguments: [
        (offer + ["--nonce", "x"], 1, "refused, invalid: nonce"),
        (offer + ["--signature-version", "3"], 2, "--signature-version takes 1 or 2"),
        (offer + ["--app-account-token", nonce], 2, "for version 1"),
        (offer + ["--key-file", "/nowhere"], 2, "belong together"),
        (
            offer + ["--key-file", "/nowhere", "--key-id", "ABCDEF1234", "--issuer-id", nonce], 2,
            "The key /nowhere: No such file"
        ),
        (offer + ["--bundle-id", "com.other"], 2, "has no app com.other"),
        (["sign", "introductory-offer", "--product-id", "pro", "--transaction-id", "1"], 2, "--allow"),
        (["sign", "advanced-commerce", "-"], 2, "not JSON"),
        (["sign", "advanced-commerce", "/nowhere"], 2, "/nowhere"),
    ])
    func `errors name the reason, with the exit status of a refusal or of wrong usage`(
        arguments: [String], status: Int32, message: String
    ) async throws {
        try await Self.withPlace { place in
            let outcome = try CommandLineTests.run(arguments + ["--config", place.configuration.path])
            #expect(outcome.status == status)
            #expect(outcome.error.hasPrefix("quittance: ") && outcome.error.contains(message), "\(outcome.error)")
            #expect(outcome.output.isEmpty)
        }
    }

    @Test func `neither command nor server uses a key that other users can read`() async throws {
        try await Self.withPlace { place in
            try place.writeKey(mode: 0o644)
            let options = ["--config", place.configuration.path]
            let signed = try CommandLineTests.run(Self.offer + options)
            #expect(signed.status == 2 && signed.error.contains("mode 0644"), "\(signed.error)")
            let ledger = ["--database", "sqlite:\(place.folder.path)/ledger.sqlite"]
            let served = try CommandLineTests.run(["serve", "--port", "0"] + options + ledger)
            #expect(served.status == 2 && served.error.contains("mode 0644"), "\(served.error)")
        }
    }

    @Test func `a key file that is named by another id is a warning of commands and of the server`() async throws {
        try await Self.withPlace { place in
            let other = place.folder.appendingPathComponent("AuthKey_OTHERKEY01.p8")
            try FileManager.default.copyItem(at: place.key, to: other)
            let text = try String(contentsOf: place.configuration, encoding: .utf8)
            try Data(text.replacing(place.key.path, with: other.path).utf8).write(to: place.configuration)
            let options = ["--config", place.configuration.path]
            let warning = "By its name this is the key OTHERKEY01, but keyId is FIRSTKEY01."
            let signed = try CommandLineTests.run(Self.offer + options)
            #expect(signed.status == 0 && signed.error.contains(warning), "\(signed.error)")
            let server = try await ServerProcess(
                options + ["--database", "sqlite:\(place.folder.path)/ledger.sqlite"], in: place.folder,
                environment: ["QUITTANCE_LOG_LEVEL": "warning"])
            #expect(server.terminate() == 0)
            #expect(server.text.contains(warning), "\(server.text)")
        }
    }

    @Test(arguments: [["serve", "--port", "0"], ["backfill", "-"], ["app-store", "refunds", "1"]])
    func `an App Store server over http that is another machine is refused, and with --insecure a warning`(
        command: [String]
    ) async throws {
        try await Self.withPlace { place in
            let options = ["--config", place.configuration.path, "--database", "sqlite:/nowhere/ledger.sqlite"]
            let variables = ["QUITTANCE_APP_STORE_SERVER": "http://192.0.2.1:9001"]
            let refused = try CommandLineTests.run(command + options, environment: variables)
            #expect(refused.status == 2 && refused.error.contains("--insecure"), "\(refused.error)")
            #expect(refused.error.contains("QUITTANCE_APP_STORE_SERVER: http://192.0.2.1:9001 "), "\(refused.error)")
            let passed = try CommandLineTests.run(command + ["--insecure"] + options, environment: variables)
            #expect(passed.error.contains("asked over http (--insecure)"), "\(passed.error)")
            // Then the missing ledger ends it.
            #expect(passed.error.contains("/nowhere/ledger.sqlite"), "\(passed.error)")
        }
    }

    @Test func `on SIGHUP the server signs with the new key, and keeps it if the next cannot be read`() async throws {
        try await Self.withPlace { place in
            let options = [
                "--config", place.configuration.path, "--database", "sqlite:\(place.folder.path)/ledger.sqlite",
            ]
            let server = try await ServerProcess(options, in: place.folder)
            defer { _ = server.terminate() }
            let key = try CommandLineTests.key(options)
            func keyId() async throws -> String? {
                let answer = try await server.send(
                    .POST, "/v1/signatures/promotional-offer", #"{"productId":"p","offerIdentifier":"o"}"#, key: key)
                return try JWS(try #require(answer.json["compactJWS"]?.string).utf8).header().kid
            }
            #expect(try await keyId() == "FIRSTKEY01")
            try place.writeKey()
            try place.writeConfiguration(keyId: "SECONDKEY2")
            server.send(signal: SIGHUP)
            while try await keyId() != "SECONDKEY2" { try Task.checkCancellation() }

            try place.writeConfiguration(keyId: "THIRDKEY03")
            try FileManager.default.removeItem(at: place.key)
            server.send(signal: SIGHUP)
            while !server.text.contains("stay as they were") { try Task.checkCancellation() }
            #expect(server.text.contains("No such file"))
            #expect(try await keyId() == "SECONDKEY2")
        }
    }
}

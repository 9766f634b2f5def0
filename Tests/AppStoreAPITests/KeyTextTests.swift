// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import Crypto
import Foundation
import TestProcess
import Testing

/// The text of a key file: what does not matter in it, and the names of what is no In-App Purchase key.
@Suite struct KeyTextTests {
    private static let pem = P256.Signing.PrivateKey().pemRepresentation

    private static func key(_ text: String) throws -> InAppPurchaseKey {
        try InAppPurchaseKey(id: "ABCDEF1234", issuer: "issuer", pem: text)
    }

    @Test(arguments: [
        "\u{feff}" + pem, pem + "\n \t\n\n", "\n  " + pem, pem.replacing("\n", with: " \t\r\n"),
        pem.replacing("\n", with: "\r"), "\u{feff}" + pem.replacing("\n", with: "\r\n") + "  ",
    ])
    func `a byte order mark, blanks around lines and any line ends are taken`(text: String) throws {
        let key = try Self.key(text)
        let signature = try key.signature(of: [1])
        let own = try P256.Signing.PrivateKey(pemRepresentation: Self.pem)
        #expect(own.publicKey.isValidSignature(signature, for: [1]))
    }

    private static func error(_ text: String) -> InAppPurchaseKeyError? {
        do throws(InAppPurchaseKeyError) {
            _ = try InAppPurchaseKey(id: "ABCDEF1234", issuer: "issuer", pem: text)
            return nil
        } catch {
            return error
        }
    }

    private static let body = pem.split(separator: "\n").dropFirst().dropLast().joined()

    @Test(arguments: [
        (Data(pem.utf8).base64EncodedString(), "The key is in base64 twice"),
        (Data(pem.utf8).base64EncodedString(options: [.lineLength76Characters]), "The key is in base64 twice"),
        (
            "-----BEGIN PRIVATE KEY-----\n\(Data(body.utf8).base64EncodedString())\n-----END PRIVATE KEY-----",
            "The key is in base64 twice"
        ),
        (pem.replacing("\n", with: #"\n"#), #"The text has the characters \n instead of line ends"#),
        (body, "The text lacks the lines BEGIN and END"), (" \n", "It is empty"),
        ("-----BEGIN PRIVATE KEY-----\nsecret!\n-----END PRIVATE KEY-----", "is damaged, and no base64"),
    ])
    func `a key in another form is named, and nothing of it is said`(text: String, message: String) throws {
        let error = try #require(Self.error(text))
        #expect(error.description.contains(message), "\(error)")
        #expect(!error.description.contains("secret") && !error.description.contains(Self.body.prefix(8)))
    }

    private static let openSSL: String? = ProcessInfo.processInfo.environment["PATH"]?.split(separator: ":")
        .map { "\($0)/openssl" }.first(where: FileManager.default.isExecutableFile)

    private static func openSSL(_ arguments: [String], input: String = "") throws -> String {
        let outcome = try TestProcess.run([try #require(openSSL)] + arguments, input: Array(input.utf8))
        try #require(outcome.status == 0, "\(outcome.error)")
        return outcome.output
    }

    private static func curve(_ name: String) -> [String] {
        ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:\(name)"]
    }

    @Test(
        .enabled(if: openSSL != nil, "needs the program openssl"),
        arguments: [
            (curve("P-384"), nil, "The key is on the curve P-384."),
            (curve("P-521"), nil, "The key is on the curve P-521."),
            (curve("secp256k1"), nil, "The key is on the curve secp256k1."),
            (curve("P-384"), ["ec"], "The key is on the curve P-384."),
            (["genpkey", "-algorithm", "ED25519"], nil, "The key is an Ed25519 key."),
            (["genpkey", "-algorithm", "RSA"], nil, "The key is an RSA key."),
            (["genpkey", "-algorithm", "RSA"], ["rsa", "-traditional"], "The key is an RSA key."),
            (curve("P-256"), ["pkey", "-pubout"], "The text is a public key"),
            (curve("P-256"), ["pkcs8", "-topk8", "-passout", "pass:secret"], "The key is encrypted"),
            (curve("P-256"), ["ec", "-aes128", "-passout", "pass:secret"], "The key is encrypted"),
            (
                curve("P-256"), ["req", "-x509", "-new", "-key", "/dev/stdin", "-subj", "/CN=a"],
                "The text is a certificate"
            ),
        ] as [([String], [String]?, String)])
    func `a key of another kind is named as openssl makes it`(
        make: [String], convert: [String]?, message: String
    ) throws {
        var text = try Self.openSSL(make)
        if let convert { text = try Self.openSSL(convert, input: text) }
        let error = try #require(Self.error(text))
        #expect(error.found?.hasPrefix(message) == true, "\(error)")
    }

    @Test(.enabled(if: openSSL != nil, "needs the program openssl")) func `a key as openssl makes it is taken`() throws
    {
        #expect(throws: Never.self) { try Self.key(try Self.openSSL(Self.curve("P-256"))) }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreTrust
import Crypto
import Foundation
import PurchaseServer
import TestData
import Testing

/// The file of an In-App Purchase key: its permissions, and what errors say about it.
@Suite struct KeyFileTests {
    private static let pem = P256.Signing.PrivateKey().pemRepresentation

    /// Calls `body` with a key file of this text and mode.
    private static func withFile(
        _ text: String = pem, mode: Int = 0o600, _ body: (InAppPurchaseKeyFile, URL) throws -> Void
    ) throws {
        let folder = try TemporaryFolder()
        let file = folder.url.appendingPathComponent("key.p8")
        try Data(text.utf8).write(to: file)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file.path)
        try body(InAppPurchaseKeyFile(file: file.path, keyId: "ABCDEF1234", issuerId: "issuer"), file)
    }

    private static func error(_ file: InAppPurchaseKeyFile) -> String? {
        do {
            _ = try file.read()
            return nil
        } catch {
            return error.description
        }
    }

    @Test(arguments: [
        (0o600, true), (0o400, true), (0o440, true), (0o640, true), (0o644, false), (0o602, false), (0o444, false),
    ])
    func `a key that other users can read or write is refused, and one that the group can read is not`(
        mode: Int, isAccepted: Bool
    ) throws {
        try Self.withFile(mode: mode) { file, _ in
            let error = Self.error(file)
            #expect((error == nil) == isAccepted)
            if let error { #expect(error.contains("mode 0\(String(mode, radix: 8))") && error.contains("chmod o=")) }
        }
    }

    @Test func `a key is found behind a link, whose own permissions do not count`() throws {
        try Self.withFile(mode: 0o440) { file, url in
            var file = file
            file.file = url.path + ".link"
            try FileManager.default.createSymbolicLink(atPath: file.file, withDestinationPath: url.path)
            #expect(try file.read().id == "ABCDEF1234")
        }
    }

    @Test(arguments: [
        "", "secret", pem.replacing("-----BEGIN", with: "----BEGIN"), String(repeating: "secret", count: 10_000),
    ])
    func `an error names the file and shows nothing of its text`(text: String) throws {
        try Self.withFile(text) { file, url in
            let error = try #require(Self.error(file))
            #expect(error.hasPrefix(url.path + ": "))
            #expect(!error.contains("secret") && !error.contains("BEGIN"))
        }
    }

    @Test(arguments: [
        ("AuthKey_ABCDEF1234.p8", false), ("/etc/q/SubscriptionKey_ABCDEF1234.p8", false), ("key.p8", false),
        ("AuthKey_ABCDEF123.p8", false), ("AuthKey_ABCDEF1235.p8", true),
        ("/etc/AuthKey_ABCDEF1234.p8/SubscriptionKey_OTHERKEY01.p8", true),
    ])
    func `a file that is named by another key's id is a warning with both ids`(path: String, isWarned: Bool) {
        let file = InAppPurchaseKeyFile(file: path, keyId: "ABCDEF1234", issuerId: "issuer")
        #expect((file.nameWarning != nil) == isWarned)
        if let warning = file.nameWarning {
            #expect(warning.hasPrefix(path) && warning.contains("keyId is ABCDEF1234"), "\(warning)")
        }
    }

    @Test func `a missing file, a folder and a pipe are errors`() throws {
        try Self.withFile { file, url in
            var other = file
            other.file = url.path + ".none"
            #expect(Self.error(other)?.contains("No such file") == true)
            other.file = url.deletingLastPathComponent().path
            #expect(Self.error(other)?.contains("not a file") == true)
            other.file = url.path + ".pipe"
            #expect(mkfifo(other.file, 0o600) == 0)
            #expect(Self.error(other)?.contains("not a file") == true)
        }
    }

    @Test func `keys are read by app, and one that cannot be read leaves none`() throws {
        try Self.withFile { file, _ in
            var (one, two) = (
                AppConfiguration(AppIdentity(bundleId: "one")), AppConfiguration(AppIdentity(bundleId: "two"))
            )
            one.inAppPurchaseKey = file
            let keys = try AppSigning.keys(of: [one, two])
            #expect(keys.mapValues(\.id) == ["one": "ABCDEF1234"])
            two.inAppPurchaseKey = InAppPurchaseKeyFile(file: file.file + ".none", keyId: "B", issuerId: "C")
            #expect(throws: KeyFileError.self) { try AppSigning.keys(of: [one, two]) }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import LedgerSQLite
import PurchaseLedger
import TestData
import TestWorld
import Testing

/// Tests the program on a ledger that was filled under other roots than it trusts.
@Suite struct OtherRootsTests {
    /// A temporary folder with the ledger of a simulator.
    private final class LedgerFolder: Sendable {
        let folder: TemporaryFolder
        let store: TestStore
        /// The options that name the ledger and its app.
        let serve: [String]

        init() async throws {
            folder = try TemporaryFolder()
            store = try TestStore()
            serve = ["--bundle-id", "com.example", "--database", "sqlite:\(folder.path())"]
        }

        var path: String { folder.path() }
        var database: [String] { ["--database", "sqlite:\(path)"] }

        /// Records a token of a simulator, unless something else is passed.
        func record(_ evidence: Evidence? = nil) async throws {
            let storage = try SQLiteLedgerStorage(path: path)
            let verified = try await store.verifier().verify(
                Array(store.sign(TestStore.transaction()).utf8), as: JWSTransactionDecodedPayload.self,
                at: TestStore.start)
            let document = try #require(evidence ?? Evidence(verified))
            _ = try await Ledger(storage: storage).record([document], claimedBy: "anna", at: TestStore.start)
            try storage.close()
        }

        func options(_ authority: StoreAuthority) throws -> [String] {
            try authority.roots.flatMap { root in
                let file = folder.url.appendingPathComponent("\(UUID()).der")
                try Data(root).write(to: file)
                return ["--root", file.path]
            }
        }

        func run(_ arguments: [String]) throws -> CommandLineTests.Outcome {
            try CommandLineTests.run(arguments, environment: ["QUITTANCE_LOG_LEVEL": "error"])
        }
    }

    private static let cure =
        "choose another database. If you pass --trust-other-roots to quittance serve once, the purchases in the ledger"

    @Test(.takesLong)
    func `a ledger filled under a simulator's roots is refused with Apple's, by each command that uses it`()
        async throws
    {
        let folder = try await LedgerFolder()
        try await folder.record()
        let roots = try folder.options(folder.store.signer.authority)
        let other = "sqlite:\(folder.folder.url.path)/other.sqlite"
        let expected = #/otherRoots: The ledger has documents of the simulator's root [0-9a-f]{64}, and /#
        for arguments in [
            ["serve", "--port", "0"] + folder.serve, ["copy", "--to", other] + folder.database,
        ] {
            let outcome = try folder.run(arguments)
            #expect(outcome.status == 1 && outcome.output.isEmpty, "\(outcome)")
            #expect(outcome.error.contains(expected) && outcome.error.contains(Self.cure), "\(outcome.error)")
            #expect(outcome.error.contains("and the configuration trusts Apple's roots: "), "\(outcome.error)")
        }
        #expect(!FileManager.default.fileExists(atPath: "\(folder.folder.url.path)/other.sqlite"), "a refused copy")
        let check = try folder.run(["check"] + folder.database)
        #expect(check.status == 1 && check.error.contains(Self.cure), "\(check.error)")
        // With its own roots all of them work, and nothing of it lists a job.
        #expect(try await ServerProcess(folder.serve + roots, in: folder.folder.url).terminate() == 0)
        #expect(try folder.run(["check"] + folder.database + roots).status == 0)
        let copy = try folder.run(["copy", "--to", other] + folder.database + roots)
        #expect(copy.status == 0 && copy.output.contains(" 0 jobs,"), "\(copy)")
        #expect(try folder.run(["jobs"] + folder.database).output == "0 jobs, 0 of them with a failure.\n")
        let copied = try folder.run(["serve", "--port", "0", "--bundle-id", "com.example", "--database", other])
        #expect(copied.status == 1 && copied.error.contains(Self.cure), "\(copied.error)")
    }

    @Test(.enabled(if: TestData.isThere, "\(TestData.whyNot)"))
    func `a ledger of the App Store is refused with a simulator's roots`() async throws {
        let folder = try await LedgerFolder()
        let verifier = AppStoreVerifier(apps: .any, environments: [.production])
        let receipt = try TestData.receipt("receipts/ios-production-2016-sha1-1-purchase.b64")
        try await folder.record(Evidence(verifier.verify(receipt: receipt, at: TestStore.start)))
        let roots = try folder.options(folder.store.signer.authority)
        let outcome = try folder.run(["serve", "--port", "0"] + folder.serve + roots)
        #expect(outcome.status == 1 && outcome.error.contains(Self.cure), "\(outcome.error)")
        #expect(outcome.error.contains("trusts the simulator's root "), "\(outcome.error)")
        #expect(try await ServerProcess(folder.serve, in: folder.folder.url).terminate() == 0)
    }

    @Test(.takesLong)
    func `replaced roots are trusted once, with a warning, and then without the option`() async throws {
        let folder = try await LedgerFolder()
        try await folder.record()
        let replaced = try folder.options(
            StoreAuthority(CertificateAuthority(from: TestStore.day(-9))))
        let refused = try folder.run(["serve", "--port", "0"] + folder.serve + replaced)
        #expect(refused.status == 1 && refused.error.contains("add the missing root to roots"), "\(refused.error)")
        let once = try await ServerProcess(folder.serve + replaced + ["--trust-other-roots"], in: folder.folder.url)
        #expect(once.text.contains("they stay, and what they say counts. Omit the option"), "\(once.text)")
        #expect(once.text.contains(#/forgotten="the simulator's root [0-9a-f]{64}"/#), "\(once.text)")
        #expect(once.terminate() == 0)
        let then = try await ServerProcess(folder.serve + replaced, in: folder.folder.url)
        #expect(!then.text.contains("--trust-other-roots"), "\(then.text)")
        #expect(then.terminate() == 0)
    }

    @Test(arguments: [["backfill", "-"], ["app-store", "order", "ORDER"]])
    func `a command that asks the App Store refuses the ledger before it asks`(arguments: [String]) async throws {
        let folder = try await LedgerFolder()
        try await folder.record()
        let key = folder.folder.url.appendingPathComponent("key.p8")
        var random = SystemRandomNumberGenerator()
        try Data(StoreKey(using: &random).pem.utf8).write(to: key)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: key.path)
        let config = folder.folder.url.appendingPathComponent("q.json")
        try Data(
            """
            {"database": "sqlite:\(folder.path)", "appStoreServer": "http://127.0.0.1:1", "apps": [
             {"bundleId": "com.example",
              "inAppPurchaseKey": {"file": "\(key.path)", "keyId": "ABC1234567",
                                   "issuerId": "57246542-96fe-1a63-e053-0824d011072a"}}]}
            """.utf8
        ).write(to: config)
        let outcome = try CommandLineTests.run(arguments + ["--config", config.path], input: Array("1\n".utf8))
        #expect(outcome.status == 1 && outcome.error.contains(Self.cure), "\(outcome.error)")
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import LedgerSQLite
import PurchaseLedger
import TestWorld
import Testing

/// Tests what `quittance check` says about many faults.
@Suite(.timeLimit(.minutes(10))) struct SupportCommandTests {
    /// A temporary folder with a ledger of a few customers, and the configuration of its apps.
    private final class Shop: Sendable {
        let folder: URL
        let store: TestStore
        let roots: [String]

        init() throws {
            let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let store = try TestStore()
            roots = try store.signer.authority.roots.enumerated().map { index, root in
                let file = folder.appendingPathComponent("root\(index).der")
                try Data(root).write(to: file)
                return file.path
            }
            (self.folder, self.store) = (folder, store)
            let list = roots.map { "\"\($0)\"" }.joined(separator: ", ")
            let text = """
                {"database": "\(database)", "roots": [\(list)], "apps": [
                  {"bundleId": "com.example", "sandboxAccess": "none", "products": {
                    "month": {"entitlements": ["pro"]}, "season": {"entitlements": ["season"]}}},
                  {"bundleId": "com.example.other", "products": {"coins": {"entitlements": []}}}]}
                """
            try Data(text.utf8).write(to: folder.appendingPathComponent("quittance.json"))
        }

        deinit { try? FileManager.default.removeItem(at: folder) }

        var path: String { folder.appendingPathComponent("ledger.sqlite").path }
        var database: String { "sqlite:\(path)" }

        /// Records transactions of one customer, or of none.
        func record(_ payloads: [JWSTransactionDecodedPayload], claimedBy customer: String?) async throws {
            let storage = try SQLiteLedgerStorage(path: path)
            for payload in payloads {
                let verified = try await store.verifier().verify(
                    Array(store.sign(payload).utf8), as: JWSTransactionDecodedPayload.self, at: TestStore.start)
                let document = try #require(Evidence(verified))
                _ = try await Ledger(storage: storage).record([document], claimedBy: customer, at: TestStore.start)
            }
            try storage.close()
        }
    }

    // MARK: - check

    @Test func `many faults are counted by kind, with an example each, before the first of them`() async throws {
        let shop = try Shop()
        try await shop.record((1...25).map { TestStore.transaction("\($0)") }, claimedBy: "anna")
        // With Apple's roots none of the documents verifies.
        let arguments = ["check", "--database", shop.database]
        let first = try CommandLineTests.run(arguments)
        #expect(first.status == 1 && first.output == "25 documents verified; faults: 26.\n", "\(first)")
        let lines = first.error.split(separator: "\n")
        #expect(lines.count == 24, "\(first.error)")
        #expect(lines[0] == "quittance: 26 faults:")
        #expect(lines[1].contains(/^quittance:   25 \w+, such as document \d/), "\(lines[1])")
        #expect(lines[2].hasPrefix("quittance:   1 otherRoots, such as The ledger has documents"), "\(lines[2])")
        #expect(lines.count { $0.hasPrefix("quittance: document ") } == 20)
        #expect(lines.last == "quittance: 6 more: --all lists all.")
        let all = try CommandLineTests.run(arguments + ["--all"]).error.split(separator: "\n")
        #expect(all.count { $0.hasPrefix("quittance: document ") } == 25)
        #expect(all.count == 29 && !all.contains { $0.contains("more:") })
        let rebuild = try CommandLineTests.run(["rebuild", "--database", shop.database])
        #expect(rebuild.status == 1 && rebuild.error.contains("5 more: quittance check --all lists all."), "\(rebuild)")
    }
}

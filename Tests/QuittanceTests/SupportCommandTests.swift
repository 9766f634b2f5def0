// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import LedgerSQLite
import PurchaseLedger
import TestWorld
import Testing

/// Tests `quittance products`, and what `quittance check` says about many faults.
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

        /// Anna has a subscription that renewed and ended, one that runs for ever, and a refunded one in the sandbox;
        /// nobody has presented purchase 70; the other app has a customer of Anna's name, and a transaction 70.
        func fill() async throws {
            try await record(
                [
                    TestStore.transaction("1"),
                    TestStore.transaction("2", original: "1", from: 30, until: 60, signed: 30),
                    TestStore.transaction("3", product: "pass", type: .nonConsumable, from: 5, until: nil, signed: 5),
                    TestStore.transaction("4", from: 1, until: 100_000, signed: 1),
                    TestStore.transaction("5", from: 2, until: 32, signed: 3) {
                        $0.environment = Open(.sandbox)
                        $0.revocationDate = TestStore.day(3)
                    },
                ], claimedBy: "anna")
            let other = TestStore.transaction("70", product: "gems", type: .consumable, until: nil) {
                $0.bundleId = "com.example.other"
            }
            try await record([other], claimedBy: "anna")
            try await record([TestStore.transaction("70")], claimedBy: nil)
        }

        func run(_ arguments: [String]) throws -> CommandLineTests.Outcome {
            try CommandLineTests.run(arguments + ["--config", folder.appendingPathComponent("quittance.json").path])
        }
    }

    private static func texts(_ texts: String...) -> JSONValue { .array(texts.map { .string($0) }) }

    // MARK: - products

    @Test func `products beside the configuration are listed for each app and environment, in both directions`()
        async throws
    {
        let shop = try Shop()
        try await shop.fill()
        let outcome = try shop.run(["products"])
        #expect(outcome.status == 1, "\(outcome)")
        #expect(
            outcome.output == """
                com.example, Production: 2 products bought, in 5 transactions
                  bought, and not in the configuration:
                    pass  1 transaction, the last at 2023-11-19T22:13:20Z: 3
                  in the configuration, and never bought:
                    season
                com.example, Sandbox: 1 product bought, in 1 transaction
                  in the configuration, and never bought:
                    season
                com.example.other, Production: 1 product bought, in 1 transaction
                  bought, and not in the configuration:
                    gems  1 transaction, the last at 2023-11-14T22:13:20Z: 70
                  in the configuration, and never bought:
                    coins
                com.example.other, Sandbox: nothing was bought
                  in the configuration, and never bought:
                    coins

                """)
        let json = try shop.run(["products", "--json"]).json
        #expect(json.count == 4)
        #expect(json[0]["unknown"]?.array?.map { $0["productId"]?.string } == ["pass"])
        #expect(json[0]["known"]?.array?.first?["transactions"]?.integer == 4)
        #expect(json[0]["known"]?.array?.first?["transactionId"]?.string == "2")
        #expect(json[0]["neverBought"] == Self.texts("season"))
        let sandbox = try shop.run(["products", "--json", "--bundle-id", "com.example"]).json
        #expect(sandbox.map { $0["environment"]?.string } == ["Production", "Sandbox"])
        // Without a configuration, all that was bought is unknown.
        let bare = try CommandLineTests.run(["products", "--database", shop.database])
        #expect(bare.status == 1)
        #expect(bare.output.contains("com.example, which is not in the configuration, Sandbox: 1 product bought, in 1"))
    }

    @Test func `products that are all in the configuration are no fault`() async throws {
        let shop = try Shop()
        try await shop.record([TestStore.transaction("1")], claimedBy: "anna")
        let outcome = try shop.run(["products", "--bundle-id", "com.example"])
        #expect(outcome.status == 0 && !outcome.output.contains("not in the configuration"), "\(outcome)")
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

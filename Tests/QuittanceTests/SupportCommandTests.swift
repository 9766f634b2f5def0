// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import LedgerSQLite
import PurchaseLedger
import TestData
import TestPostgres
import TestProcess
import TestWorld
import Testing

/// Tests `quittance products` and `quittance customer show`, and what `quittance check` says about many faults.
@Suite(.timeLimit(.minutes(60))) struct SupportCommandTests {
    /// A temporary folder with a ledger of a few customers, and the configuration of its apps.
    final class Shop: Sendable {
        let folder: TemporaryFolder
        let store: TestStore
        let config: String

        init() throws {
            let (folder, store) = (try TemporaryFolder(), try TestStore())
            (self.folder, self.store) = (folder, store)
            let roots = try store.writeRoots(to: folder.url).map { "\"\($0)\"" }
            let text = """
                {"database": "sqlite:\(folder.path())", "roots": [\(roots.joined(separator: ", "))], "apps": [
                  {"bundleId": "com.example", "sandboxAccess": "none", "products": {
                    "month": {"entitlements": ["pro"]}, "season": {"entitlements": ["season"]}}},
                  {"bundleId": "com.example.other", "products": {"coins": {"entitlements": []}}}]}
                """
            config = try folder.write(text, to: "quittance.json").path
        }

        var path: String { folder.path() }
        var database: String { "sqlite:\(path)" }

        func ledger<Value>(_ body: (Ledger) async throws -> Value) async throws -> Value {
            let storage = try SQLiteLedgerStorage(path: path)
            defer { try? storage.close() }
            return try await body(Ledger(storage: storage))
        }

        /// Records transactions of one customer, or of none.
        func record(_ payloads: [JWSTransactionDecodedPayload], claimedBy customer: String?) async throws {
            try await ledger { ledger in
                for payload in payloads {
                    let document = try await store.verifier().evidence(
                        transaction: store.sign(payload), at: TestStore.start)
                    _ = try await ledger.record([document], claimedBy: customer, at: TestStore.start)
                }
            }
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
            try CommandLineTests.run(arguments + ["--config", config])
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

    // MARK: - purchases submit

    @Test(arguments: [true, false]) func `a document is read from a file or from standard input`(isFile: Bool) throws {
        let shop = try Shop()
        try SQLiteLedgerStorage(path: shop.path).close()
        let text = try shop.store.sign(TestStore.transaction("1")) + "\n"
        let file = isFile ? try shop.folder.write(text, to: "document.jws").path : "-"
        let arguments = ["purchases", "submit", "anna", "--new", "--document", file, "--bundle-id", "com.example"]
        let outcome = try CommandLineTests.run(
            arguments + ["--config", shop.config], input: isFile ? [] : Array(text.utf8))
        #expect(outcome.status == 0 && outcome.output.contains(#""recorded":1"#), "\(outcome)")
    }

    // MARK: - customer set and find

    @Test func `attributes are set and removed, customers are found by their address, and the card has the attributes`()
        async throws
    {
        let shop = try Shop()
        try await shop.fill()
        let app = ["--bundle-id", "com.example"]
        let set = try shop.run(["customer", "set", "anna", "$email=anna@example.com", "plan=a=b"] + app)
        #expect(set.status == 0 && set.error.isEmpty, "\(set)")
        #expect(
            set.output.split(separator: "\n").map { $0.split(separator: " ")[0] } == [
                "$email=anna@example.com", "plan=a=b",
            ])
        let found = try shop.run(["customer", "find", "Anna@Example.com"] + app)
        #expect(found.status == 0 && found.output == "anna\n", "\(found)")
        let unknown = try shop.run(["customer", "find", "ann@example.com"] + app)
        #expect(unknown.status == 1 && unknown.output.isEmpty && unknown.error.contains("ann@example.com"))
        let card = try shop.run(["customer", "show", "anna"] + app)
        #expect(card.output.contains(/\n  plan +a=b +\S+\n/), "\(card)")
        let json = try shop.run(["customer", "show", "anna", "--json"] + app).json
        #expect(json[0]["attributes"]?["$email"]?["value"]?.string == "anna@example.com")
        let removed = try shop.run(["customer", "set", "anna", "$email="] + app)
        #expect(removed.status == 0 && !removed.output.contains("$email"), "\(removed)")
        #expect(try shop.run(["customer", "find", "anna@example.com"] + app).status == 1)
    }

    // MARK: - customer show

    @Test func `a customer is shown with ids, entitlements, subscriptions, purchases and documents`() async throws {
        let shop = try Shop()
        try await shop.fill()
        let outcome = try shop.run(["customer", "show", "anna", "--bundle-id", "com.example"])
        #expect(outcome.status == 0 && outcome.error.isEmpty, "\(outcome)")
        for expected in [
            /The customer anna of com\.example\n/, /environments that count  Production\n/,
            /\n  pro +2297-\S+ +subscription +month +Production\n/,
            /\n  1 +stale +month +no +2024-\S+ +\S+ +Production\n/,
            /\n  4 +active +month +yes +2297-\S+ +\S+ +Production\n/,
            /\n  5 +revoked +month +no +2023-\S+ +\S+ +Sandbox\n/,
            /\n  2 +month +2023-12-14\S+ +2024-01-13\S+ +over +Production\n/,
            /\n  3 +pass +2023-11-19\S+ +bought +Production\n/,
            /\n  5 +month +2023-11-16\S+ +2023-12-16\S+ +revoked 2023-11-17\S+ +Sandbox\n/,
            /\n  2023-12-14\S+ +2023-11-14\S+ +transaction +\d+-[0-9a-f]{64}\n/,
        ] { #expect(outcome.output.contains(expected), "\(outcome.output)") }
        let found = try shop.run(["customer", "show", "anna", "--bundle-id", "com.example", "--json"]).json
        let json = try #require(found.first)
        #expect(found.count == 1 && json["counted"] == Self.texts("Production"))
        let environments = json["environments"]?.array ?? []
        #expect(environments.map { $0["environments"] } == [Self.texts("Production"), Self.texts("Sandbox")])
        #expect(environments.first?["entitlements"]?.array?.first?["reason"]?.string == "subscription")
        #expect(environments.first?["purchases"]?.array?.count == 4)
        #expect(environments.first?["unknownProducts"] == Self.texts("pass"))
        #expect(json["documents"]?.array?.count == 5)
        // The customer's transactions lead to the same.
        let byTransaction = try shop.run(["customer", "show", "2", "--json"]).json
        #expect(byTransaction.first?["ids"] == Self.texts("anna"))
        #expect(byTransaction.first?["environments"]?.array?.count == 2)
    }

    @Test func `an id that names several things is said, and all of them are shown`() async throws {
        let shop = try Shop()
        try await shop.fill()
        let name = try shop.run(["customer", "show", "anna"])
        #expect(
            name.error == "quittance: “anna” names 2 things: the customer anna of com.example; "
                + "the customer anna of com.example.other.\n")
        #expect(name.status == 0 && name.output.contains("The customer anna of com.example\n"))
        #expect(name.output.contains("The customer anna of com.example.other\n"), "\(name.output)")
        let transaction = try shop.run(["customer", "show", "70"])
        #expect(
            transaction.error == "quittance: “70” names 2 things: the transaction 70 of com.example in Production; "
                + "the transaction 70 of com.example.other in Production.\n")
        #expect(transaction.output.contains("The purchase 70 of com.example, which belongs to no customer\n"))
        #expect(transaction.output.contains("The customer anna of com.example.other\n"))
        #expect(
            try shop.run(["customer", "show", "70", "--json"]).json.map { $0["ids"] } == [
                .array([]), Self.texts("anna"),
            ])
    }

    @Test(arguments: ["nobody", "999", "MV5G8XK2PQ", "anno", "e\u{301}\u{200d}"])
    func `an id that names nothing is said, with status 1`(id: String) async throws {
        let shop = try Shop()
        try await shop.fill()
        let outcome = try shop.run(["customer", "show", id])
        #expect(outcome.status == 1 && outcome.output.isEmpty, "\(outcome)")
        #expect(outcome.error.contains("names no customer and no purchase in com.example, com.example.other."))
        #expect(!outcome.error.contains("\u{200d}"))
        #expect(outcome.error.contains("Did you mean “anna”?") == (id == "anno"), "\(outcome.error)")
        #expect(outcome.error.contains("add inAppPurchaseKey to the app") == (id == "MV5G8XK2PQ"))
    }

    @Test(
        arguments: [
            (["customer", "show", "a\u{1b}[31m"], "<id>: U+001B at position 2 is not allowed. "),
            (["customer", "show", " "], "<id>: The text is blank. "),
            (["customer", "find", "a\u{202e}@example.com"], "<email>: U+202E at position 2 is not allowed. "),
            (
                ["watch", "\u{7f}", "--server", "http://127.0.0.1:1"],
                "<customer>: U+007F at position 1 is not allowed. "
            ),
            (["events", "--customer", "ab\u{200f}"], "--customer: U+200F at position 3 is not allowed. "),
            (["customer", "set", "anna\u{85}", "a=b"], "<customer>: U+0085 at position 5 is not allowed. "),
            (["purchases", "deny", "7\u{1b}", "--reason", "r"], "<purchase>: U+001B at position 2 is not allowed. "),
            (["purchases", "deny", "7", "--reason", "r\u{2066}"], "--reason: U+2066 at position 2 is not allowed. "),
            (["grants", "end", "anna", "x\n"], "<grant>: U+000A at position 2 is not allowed. "),
            (
                ["keys", "create", "--name", "\u{1}", "--role", "server"],
                "--name: U+0001 at position 1 is not allowed. "
            ),
            (["keys", "customer-token", "--customer", "\t"], "--customer: U+0009 at position 1 is not allowed. "),
            (
                ["sign", "promotional-offer", "--product-id", "p\u{1b}", "--offer-identifier", "o"],
                "--product-id: U+001B at position 2 is not allowed. "
            ),
            (
                ["sign", "introductory-offer", "--product-id", "\u{202a}", "--transaction-id", "1", "--allow"],
                "--product-id: U+202A at position 1 is not allowed. "
            ),
        ] as [([String], String)])
    func `an argument with a character that its form refuses is named, with the position and status 2`(
        arguments: [String], expected: String
    ) throws {
        let isRemote = ["watch", "events"].contains(arguments[0])
        let app = ["--bundle-id", "com.example"]
        let outcome = isRemote ? try CommandLineTests.run(arguments) : try Shop().run(arguments + app)
        #expect(outcome.status == 2 && outcome.output.isEmpty, "\(outcome)")
        #expect(outcome.error.hasPrefix("quittance: \(expected)"), "\(outcome)")
    }

    /// Swift would read U+FFFD, and `customer set` would make a customer with such an id.
    @Test(arguments: [
        "customer show A", "customer set A a=b --new", "keys create --role server --name=A", "A", "verify A",
    ])
    func `an argument that is not in UTF-8 is named, with status 2`(words: String) throws {
        let script = "exec \"$0\" " + words.replacing("A", with: #""$(printf 'caf\351')""#)
        let outcome = try TestProcess.run(["sh", "-c", script, CommandLineTests.program.path])
        let number = (words.split(separator: " ").firstIndex { $0.contains("A") } ?? 0) + 1
        #expect(outcome.status == 2 && outcome.output.isEmpty, "\(outcome)")
        #expect(outcome.error.hasPrefix("quittance: Argument \(number), “"), "\(outcome)")
        #expect(outcome.error.contains("caf\u{fffd}”, is not in UTF-8."), "\(outcome)")
    }

    @Test func `many purchases are cut to the newest, unless all are asked for`() async throws {
        let shop = try Shop()
        let periods = (0..<30).map { month in
            TestStore.transaction(
                "\(100 + month)", original: "100", from: Double(month) * 30, until: Double(month + 1) * 30,
                signed: Double(month) * 30)
        }
        try await shop.record(periods, claimedBy: "anna")
        let first = try shop.run(["customer", "show", "anna"]).output
        #expect(first.contains("\n  129 ") && !first.contains("\n  105 "), "\(first)")
        #expect(first.contains("  10 more: --all lists all.\n"))
        #expect(try shop.run(["customer", "show", "anna", "--all"]).output.contains("\n  105 "))
    }

    @Test func `neither command changes a ledger`() async throws {
        let shop = try Shop()
        try await shop.fill()
        let before = try Data(contentsOf: URL(fileURLWithPath: shop.path))
        for arguments in [["products"], ["customer", "show", "anna"], ["customer", "show", "70"]] {
            _ = try shop.run(arguments)
        }
        #expect(try Data(contentsOf: URL(fileURLWithPath: shop.path)) == before)
    }

    @Test(.takesLong, .enabled(if: TestPostgres.isThere, "\(TestPostgres.whyNot)"))
    func `both commands say the same of a database as of a file`() async throws {
        let shop = try Shop()
        try await shop.fill()
        let database = try TestPostgres.database()
        let uri = TestPostgres.uri(database.name, at: [database.server.folder])
        #expect(try shop.run(["copy", "--to", uri]).status == 0)
        // As on a standby.
        try database.psql("ALTER DATABASE \(database.name) SET default_transaction_read_only = on")
        for arguments in [
            ["products"], ["products", "--json"], ["customer", "show", "anna", "--bundle-id", "com.example"],
            ["customer", "show", "anna"],
            ["customer", "show", "nobody"],
        ] {
            let (file, database) = (try shop.run(arguments), try shop.run(arguments + ["--database", uri]))
            func withoutTime(_ text: String) -> String { text.replacing(/as of .*\n/, with: "") }
            #expect(database.status == file.status && database.error == file.error, "\(database)")
            #expect(withoutTime(database.output) == withoutTime(file.output))
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

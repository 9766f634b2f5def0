// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import LedgerSQLite
import PurchaseLedger
import TestData
import TestProcess
import Testing

/// Tests `quittance webhooks` with correct and with mistaken arguments.
@Suite(.timeLimit(.minutes(60))) struct WebhookCommandTests {
    /// A folder with a ledger, a secret file and a configuration of an app.
    private final class Place: Sendable {
        let folder: TemporaryFolder

        init() throws {
            folder = try TemporaryFolder()
            try write("a text that only this test has, as a secret", to: "secret")
            try write(
                """
                {"webhookSecretFile": "\(path("secret"))", "webhookNetworks": ["127.0.0.1"],
                 "apps": [{"bundleId": "com.example", "products": {"month": {"entitlements": ["pro"]}}}]}
                """, to: "quittance.json")
            try SQLiteLedgerStorage(path: path("ledger.sqlite")).close()
        }

        func path(_ name: String) -> String { folder.path(name) }

        func write(_ text: String, to name: String) throws {
            _ = try folder.write(text, to: name)
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path(name))
        }

        func run(_ arguments: String...) throws -> CommandLineTests.Outcome { try run(arguments) }

        func run(_ arguments: [String]) throws -> CommandLineTests.Outcome {
            try CommandLineTests.run(
                ["webhooks"] + arguments + [
                    "--database", "sqlite:\(path("ledger.sqlite"))", "--config", path("quittance.json"),
                ])
        }

        /// The JSON of a command's answer.
        func json(_ arguments: String...) throws -> JSONValue {
            let outcome = try run(arguments + ["--json"])
            try #require(outcome.status == 0, "\(outcome)")
            return try JSONValue(parsing: outcome.output.utf8)
        }

        /// Adds an endpoint.
        func add(_ url: String = "https://example.com", _ arguments: String...) throws -> (id: String, secret: String) {
            let outcome = try run(["add", url, "--json"] + arguments)
            try #require(outcome.status == 0, "\(outcome)")
            let made = try JSONValue(parsing: outcome.output.utf8)
            return (try #require(made["id"]?.string), try #require(made["secret"]?.string))
        }
    }

    @Test func `an endpoint is added with its secret, listed without it, shown, and changed`() throws {
        let place = try Place()
        let added = try place.run(
            "add", "https://Example.com/hooks", "--kind", "grant.made,purchase.made", "--environment", "sandbox",
            "--ordered", "--asymmetric")
        let id = String(added.output.prefix { $0 != " " })
        let line = "\(id)  https://example.com/hooks  grant.made,purchase.made  Sandbox  ordered  asymmetric  active"
        #expect(added.status == 0 && added.output.hasPrefix("\(line)  whsec_"), "\(added)")
        #expect(added.output.contains("  whpk_"))
        #expect(try place.run("list").output == "\(line)\n")
        let shown = try place.run("show", id)
        #expect(shown.status == 0 && !shown.output.contains("whsec_"))
        #expect(shown.output.hasPrefix("\(line)\nwaiting 0  setAsideCount 0  "), "\(shown.output)")
        let secret = try #require(place.json("secret", id)["secret"]?.string)
        #expect(added.output.contains(secret))
        #expect(try place.json("show", id)["deliveries"]?["waiting"]?.integer == 0)
        #expect(try place.json("list")["items"]?.array?.first?["kinds"]?.array?.count == 2)
        let changed = try place.run("change", id, "--kind", "all", "--no-ordered", "--no-backfilled")
        #expect(changed.output == "\(id)  https://example.com/hooks  Sandbox  asymmetric  no-backfilled  active\n")
    }

    @Test func `an endpoint is removed after a question, which a script answers with --yes`() throws {
        let place = try Place()
        let (id, _) = try place.add()
        let asked = try place.run("remove", id)
        #expect(asked.status == 2 && asked.error.contains("--yes"), "\(asked)")
        #expect(try place.run("list").output.hasPrefix(id))
        #expect(try place.run("remove", id, "--yes").output == "Removed.\n")
        #expect(try place.run("list").output.isEmpty)
        #expect(try place.run("remove", id, "--yes").status == 1)
    }

    @Test func `a test prints the failure of each example, and ends with status 1`() throws {
        let place = try Place()
        // Port 9 is that of a protocol that no machine offers any more.
        let (id, _) = try place.add("http://127.0.0.1:9/", "--kind", "grant.made,grant.ended")
        let outcome = try place.run("test", id)
        let lines = outcome.output.split(separator: "\n")
        #expect(outcome.status == 1, "\(outcome)")
        // Each endpoint gets the last, whatever its kinds.
        #expect(lines.map { $0.prefix { $0 != " " } } == ["grant.made", "grant.ended", "ledger.restored"])
        #expect(lines.allSatisfy { $0.contains("refused") }, "\(lines)")
    }

    @Test func `a broken secret file matters only to the commands that sign`() throws {
        let place = try Place()
        let (id, _) = try place.add()
        try place.write("short", to: "secret")
        let short = try place.run("rotate", id)
        #expect(short.status == 2 && short.error.contains("has 5 bytes, and needs at least 32"), "\(short)")
        #expect(try place.run("pause", id).status == 0)
    }

    @Test(
        arguments: [
            (["add", "https://10.0.0.1"], 2, "is forbidden"),
            (["add", "https://a.example", "--from", "x"], 2, "an event"),
            (["change", "x"], 2, "such as --url"),
            (["show", "x"], 1, "The endpoint is not known"),
            (["show", "qt_x\u{1b}[2J"], 2, "<id>: U+001B at position 5"),
        ] as [([String], Int32, String)])
    func `a refusal is shown, and its status says whether the request was wrong`(
        arguments: [String], status: Int32, message: String
    ) throws {
        let outcome = try Place().run(arguments)
        #expect(outcome.status == status && outcome.output.isEmpty && outcome.error.contains(message), "\(outcome)")
    }
}

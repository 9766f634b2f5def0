// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import LedgerSQLite
import PurchaseLedger
import TestProcess
import Testing

/// Tests `quittance webhooks` with correct and with mistaken arguments.
@Suite(.timeLimit(.minutes(60))) struct WebhookCommandTests {
    /// A folder with a ledger, a secret file and a configuration of an app.
    private final class Place: Sendable {
        let folder: URL

        init() throws {
            folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            try write("a text that only this test has, as a secret", to: "secret")
            try write(
                """
                {"webhookSecretFile": "\(path("secret"))", "webhookNetworks": ["127.0.0.1"],
                 "apps": [{"bundleId": "com.example", "products": {"month": {"entitlements": ["pro"]}}}]}
                """, to: "quittance.json")
            try SQLiteLedgerStorage(path: path("ledger.sqlite")).close()
        }

        deinit { try? FileManager.default.removeItem(at: folder) }

        func path(_ name: String) -> String { folder.appendingPathComponent(name).path }

        func write(_ text: String, to name: String) throws {
            try Data(text.utf8).write(to: folder.appendingPathComponent(name))
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path(name))
        }

        func run(_ arguments: String...) throws -> CommandLineTests.Outcome { try run(arguments) }

        func run(_ arguments: [String]) throws -> CommandLineTests.Outcome {
            try CommandLineTests.run(
                ["webhooks"] + arguments + [
                    "--database", "sqlite:\(path("ledger.sqlite"))", "--config", path("quittance.json"),
                ])
        }

        /// Adds an endpoint, and returns the output's values by their names.
        func add(_ arguments: String...) throws -> [String: String] {
            let outcome = try run(["add"] + arguments)
            try #require(outcome.status == 0, "\(outcome)")
            return Self.values(outcome.output)
        }

        static func values(_ output: String) -> [String: String] {
            let pairs = output.split(separator: "\n").map { line in
                (String(line.prefix(12).trimmingCharacters(in: .whitespaces)), String(line.dropFirst(12)))
            }
            return Dictionary(pairs) { $1 }
        }
    }

    @Test func `an endpoint is added with its secret, listed without it, and shown`() throws {
        let place = try Place()
        let added = try place.add(
            "https://Example.com/hooks", "--kind", "grant.made,purchase.made", "--environment", "sandbox", "--ordered",
            "--asymmetric")
        let id = try #require(added["id"])
        let secret = try #require(added["secret"])
        #expect(secret.hasPrefix("whsec_") && added["public key"]?.hasPrefix("whpk_") == true, "\(added)")
        let line = """
            \(id)  com.example  https://example.com/hooks  grant.made,purchase.made  Sandbox  ordered  asymmetric  \
            active
            """
        #expect(try place.run("list").output == "\(line)\n")
        let others = try place.run("list", "--bundle-id", "com.other")
        #expect(others.status == 0 && others.output.isEmpty, "\(others)")
        #expect(others.error == "The ledger has no endpoints of com.other.\n")
        let shown = try place.run("show", id)
        #expect(shown.status == 0 && !shown.output.contains("whsec_"))
        #expect(
            shown.output == "\(line)\n0 waiting, 0 set aside, nothing delivered yet, at cursor 0\n", "\(shown.output)")
        #expect(Place.values(try place.run("show", id, "--secret").output)["secret"] == secret)
        let json = try JSONValue(parsing: try place.run("show", id, "--json").output.utf8)
        #expect(json["id"]?.string == id && json["secret"] == nil && json["deliveries"]?["waiting"]?.integer == 0)
        let list = try JSONValue(parsing: try place.run("list", "--json").output.utf8)
        #expect(list["kinds"]?.array?.count == 2 && list["secret"] == nil && list["deliveries"] == nil)
        let hidden = try JSONValue(parsing: try place.run("show", id, "--secret", "--json").output.utf8)
        #expect(hidden["secret"]?.string == secret)
    }

    @Test func `a change sets the settings that it names, and leaves the others and the secret`() throws {
        let place = try Place()
        let added = try place.add("https://example.com", "--kind", "grant.made", "--environment", "sandbox")
        let id = try #require(added["id"])
        for (arguments, line) in [
            (["--ordered"], "https://example.com/  grant.made  Sandbox  ordered  active"),
            (
                ["--kind", "all", "--asymmetric"],
                "https://example.com/  all kinds  Sandbox  ordered  asymmetric  active"
            ),
            (
                ["--url", "https://Example.net/a", "--environment", "all"],
                "https://example.net/a  all kinds  all environments  ordered  asymmetric  active"
            ),
            (
                ["--no-ordered", "--no-asymmetric", "--environment", "production", "--kind", "grant.ended"],
                "https://example.net/a  grant.ended  Production  active"
            ),
        ] {
            let outcome = try place.run(["change", id] + arguments)
            #expect(outcome.output == "Changed: \(id)  com.example  \(line)\n", "\(arguments): \(outcome)")
            #expect(try place.run("list").output == "\(id)  com.example  \(line)\n")
        }
        #expect(Place.values(try place.run("show", id, "--secret").output)["secret"] == added["secret"])
        #expect(try place.run("change", "x", "--ordered").status == 1)
    }

    @Test func `a replay since a future time, or after a cursor of another ledger, is refused`() throws {
        let place = try Place()
        let id = try #require(place.add("https://example.com")["id"])
        let since = try place.run("replay", id, "--since", "2999-01-01T00:00:00Z")
        #expect(since.status == 2 && since.error.contains("in the future"), "\(since)")
        let after = try place.run("replay", id, "--after", "7.elsewhere")
        #expect(after.status == 2 && after.error.contains("the id of an event of the app"), "\(after)")
    }

    @Test func `a rotation makes a new secret, and a paused endpoint is resumed`() throws {
        let place = try Place()
        let added = try place.add("https://example.com")
        let id = try #require(added["id"])
        #expect(added["public key"] == nil)
        let rotated = Place.values(try place.run("rotate", id).output)
        #expect(rotated["id"] == id && rotated["secret"]?.hasPrefix("whsec_") == true)
        #expect(rotated["secret"] != added["secret"])
        let shown = Place.values(try place.run("show", id, "--secret").output)
        #expect(shown["secret"] == rotated["secret"])
        for (command, verb, state) in [("pause", "Paused", "paused"), ("resume", "Resumed", "active")] {
            let outcome = try place.run(command, id)
            #expect(outcome.output.hasPrefix("\(verb): \(id)  ") && outcome.output.hasSuffix("  \(state)\n"))
            #expect(try place.run("list").output.hasSuffix("  \(state)\n"))
        }
    }

    @Test func `events are replayed, and a wrong cursor is refused`() throws {
        let place = try Place()
        let id = try #require(place.add("https://example.com")["id"])
        let cases: [([String], Int32, String)] = [
            (["--set-aside"], 0, "0 events will be delivered again.\n"),
            (["--since", "2026-01-01T00:00:00Z"], 0, "Events will be delivered again.\n"),
            (["--after", "0"], 0, "Events will be delivered again.\n"),
            (["--after", "7.x"], 2, ""), ([], 2, ""), (["--after", "0", "--set-aside"], 2, ""),
            (["--since", "tomorrow"], 2, ""),
        ]
        for (arguments, status, output) in cases {
            let outcome = try place.run(["replay", id] + arguments)
            #expect(outcome.status == status && outcome.output == output, "\(arguments): \(outcome)")
        }
    }

    @Test func `an endpoint is removed after a question, which a script answers with --yes`() throws {
        let place = try Place()
        let id = try #require(place.add("https://example.com")["id"])
        let asked = try place.run("remove", id)
        #expect(asked.status == 2 && asked.error.contains("--yes"), "\(asked)")
        #expect(try place.run("list").output.hasPrefix(id))
        let removed = try place.run("remove", id, "--yes")
        #expect(removed.status == 0 && removed.output.hasPrefix("Removed: \(id)  "), "\(removed)")
        #expect(try place.run("list").output.isEmpty)
        #expect(try place.run("remove", id, "--yes").status == 1)
    }

    @Test func `a test prints the failure of each example, and ends with status 1`() throws {
        let place = try Place()
        // Port 9 is that of a protocol that no machine offers any more.
        let id = try #require(place.add("http://127.0.0.1:9/", "--kind", "grant.made,grant.ended")["id"])
        let outcome = try place.run("test", id)
        #expect(outcome.status == 1 && outcome.error.contains("3 of 3 examples failed."), "\(outcome)")
        let lines = outcome.output.split(separator: "\n")
        // Each endpoint gets the last, whatever its kinds.
        #expect(lines.map { $0.prefix { $0 != " " } } == ["grant.made", "grant.ended", "ledger.restored"])
        #expect(lines.allSatisfy { $0.contains("refused") }, "\(lines)")
        let json = try place.run("test", id, "--json").output.split(separator: "\n")
        #expect(try JSONValue(parsing: (json.first ?? "").utf8)["status"] == .null)
    }

    @Test func `another secret file is refused, and without one nothing is signed`() throws {
        let place = try Place()
        let id = try #require(place.add("https://example.com")["id"])
        try place.write("a different text, also long enough for a secret", to: "secret")
        for arguments in [
            ["add", "https://example.com"], ["rotate", id], ["show", id, "--secret"], ["test", id],
        ] {
            let outcome = try place.run(arguments)
            #expect(outcome.status == 1 && outcome.output.isEmpty, "\(arguments): \(outcome)")
            #expect(outcome.error.contains("a file other than webhookSecretFile"), "\(outcome.error)")
        }
        #expect(try place.run("pause", id).status == 0)
        try place.write("short", to: "secret")
        let short = try place.run("rotate", id)
        #expect(short.status == 2 && short.error.contains("has 5 bytes, and needs at least 32"), "\(short)")
        try place.write(#"{"apps": [{"bundleId": "com.example"}]}"#, to: "quittance.json")
        let none = try place.run("rotate", id)
        #expect(none.status == 2 && none.error.contains("no webhookSecretFile"), "\(none)")
        #expect(try place.run("show", id).status == 0)
    }

    @Test(arguments: [
        (["add"], "<url>"), (["add", "https://10.0.0.1"], "is forbidden"),
        (["add", "http://10.0.0.1"], "must be https"), (["add", "ftp://example.com"], "https://"),
        (["add", "https://a.example", "--kind", "grant.lost"], "grant.lost"),
        (["add", "https://a.example", "--environment", "xcode"], "the configuration lacks it"),
        (["add", "https://a.example", "--from", "x"], "--from takes the id of an event"),
        (["add", "https://a.example", "--bundle-id", "com.example.two"], "has no app"), (["show"], "<id>"),
        (["change", "x"], "Which setting?"), (["change", "x", "--url", "https://10.0.0.1"], "is forbidden"),
        (["change", "x", "--kind", "grant.lost"], "grant.lost"),
        (["change", "x", "--environment", "xcode"], "the configuration lacks it"),
        (["change", "x", "--ordered", "--no-ordered"], "--no-ordered"), (["rotate"], "<id>"), (["replay"], "<id>"),
        (["show", "x", "--secrets"], "--secret"),
    ])
    func `wrong usage is refused with status 2`(arguments: [String], message: String) throws {
        let place = try Place()
        let outcome = try place.run(arguments)
        #expect(outcome.status == 2 && outcome.output.isEmpty && outcome.error.contains(message), "\(outcome)")
        #expect(try place.run("list").output.isEmpty)
    }

    @Test(arguments: ["show", "rotate", "pause", "resume", "test"])
    func `an unknown endpoint is a failure that names the list`(command: String) throws {
        let outcome = try Place().run(command, "qt_x\u{1b}[2J")
        #expect(outcome.status == 1 && outcome.output.isEmpty)
        #expect(outcome.error.contains("see quittance webhooks list") && !outcome.error.contains("\u{1b}"))
    }
}

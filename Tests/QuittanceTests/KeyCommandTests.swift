// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import LedgerSQLite
import PurchaseLedger
import TestData
import TestProcess
import Testing

/// Tests `quittance keys` with correct and with mistaken arguments.
@Suite(.timeLimit(.minutes(60))) struct KeyCommandTests {
    /// A folder with a ledger and a configuration of two apps.
    private final class Place: Sendable {
        let folder: TemporaryFolder

        init() throws {
            folder = try TemporaryFolder()
            let configuration = #"{"apps": [{"bundleId": "com.example.one"}, {"bundleId": "com.example.two"}]}"#
            _ = try folder.write(configuration, to: "quittance.json")
            try SQLiteLedgerStorage(path: ledger).close()
        }

        var ledger: String { folder.path() }
        var database: [String] { ["--database", "sqlite:\(ledger)"] }
        var options: [String] { database + ["--config", folder.path("quittance.json")] }

        func create(_ role: String = "client", _ bundleId: String = "com.example.one") throws -> String {
            let outcome = try CommandLineTests.run(
                ["keys", "create", "--name", "a name", "--role", role, "--bundle-id", bundleId] + options)
            try #require(outcome.status == 0, "\(outcome.error)")
            return outcome.output.trimmingCharacters(in: .newlines)
        }

        func keys() async throws -> [APIKey] {
            let storage = try SQLiteLedgerStorage(reading: ledger)
            defer { try? storage.close() }
            return try await Ledger(storage: storage).apiKeys().items
        }
    }

    // MARK: Creating

    @Test(arguments: [
        (["--name", "x", "--bundle-id", "com.example.one"], "--role"),
        (["--role", "client", "--bundle-id", "com.example.one"], "--name"),
        (["--name", "x", "--role", "client"], "Which app"),
        (["--name", "x", "--role", "owner", "--bundle-id", "com.example.one"], "role"),
        (["--name", "x", "--role", "client", "--bundle-id", "com.example.three"], "has no app com.example.three"),
    ])
    func `a key needs a name, a role, and an app of the configuration`(
        arguments: [String], message: String
    ) async throws {
        let place = try Place()
        let outcome = try CommandLineTests.run(["keys", "create"] + arguments + place.options)
        #expect(outcome.status == 2 && outcome.output.isEmpty)
        #expect(outcome.error.contains(message), "\(outcome.error)")
        #expect(try await place.keys().isEmpty)
    }

    @Test func `without apps in the configuration, a key for an app that no server has had is created with a warning`()
        async throws
    {
        let place = try Place()
        let arguments = ["keys", "create", "--name", "x", "--role", "server", "--bundle-id", "com.example.three"]
        let outcome = try CommandLineTests.run(arguments + place.database)
        #expect(outcome.status == 0 && outcome.output.hasPrefix("qt_"))
        #expect(outcome.error.contains("No server with this ledger has had the app com.example.three"))
        let server = try await ServerProcess(
            ["--bundle-id", "com.example.three"] + place.database, in: place.folder.url)
        // The server stores the names of its apps in the background.
        while try !CommandLineTests.run(arguments + place.database).error.hasPrefix("Created") {
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(server.terminate() == 0)
    }

    @Test(arguments: [">&-", "> /dev/full", "| true"])
    func `a key that could not be printed is not stored`(redirection: String) async throws {
        let place = try Place()
        // For the pipe, the reader ends first.
        let script =
            redirection.hasPrefix("|")
            ? #"set -o pipefail; mkfifo "$0.pipe"; (sleep 0 < "$0.pipe") & exec 3> "$0.pipe"; wait; "$@" >&3"#
            : "\"$@\" \(redirection)"
        let outcome = try TestProcess.run(
            ["bash", "-c", script, place.ledger, CommandLineTests.program.path, "keys", "create", "--name", "x"]
                + ["--role", "server", "--bundle-id", "com.example.one"] + place.options)
        #expect(outcome.status != 0)
        let text = outcome.error
        #expect(redirection.hasPrefix("|") || text.contains("Cannot write the output"), "\(text)")
        #expect(!text.contains("Created"))
        #expect(try await place.keys().isEmpty)
        #expect(try CommandLineTests.run(["check"] + place.database).status == 0)
    }

    @Test func `a key may expire, and the list says when`() async throws {
        let place = try Place()
        let words = [
            "keys", "create", "--name", "x", "--role", "support", "--bundle-id", "com.example.one", "--expires",
        ]
        #expect(try CommandLineTests.run(words + ["2999-01-31"] + place.options).status == 0)
        let key = try #require(try await place.keys().first)
        #expect(key.expiresAt == Timestamp(iso8601: "2999-01-31T00:00:00Z") && key.role == .support)
        let list = try CommandLineTests.run(["keys", "list"] + place.database)
        #expect(list.output.contains("expires 2999-01-31T00:00:00"), "\(list.output)")
        #expect(try CommandLineTests.run(words + ["30d"] + place.options).status == 0)
        let days = try await place.keys().compactMap { key in
            key.expiresAt.map { key.createdAt.duration(to: $0) / .seconds(86_400) }
        }
        #expect(days.contains { (30...31).contains($0) }, "\(days)")
        for (text, message) in [("2020-01-31", "--expires is in the past"), ("soon", "“soon” is not a time")] {
            let outcome = try CommandLineTests.run(words + [text] + place.options)
            #expect(outcome.status == 2 && outcome.error.contains(message), "\(outcome)")
        }
        #expect(try await place.keys().count == 2)
    }

    // MARK: Listing

    @Test func `a list of keys leaves out the control characters in names`() async throws {
        let place = try Place()
        let storage = try SQLiteLedgerStorage(path: place.ledger)
        let key = APIKey(
            id: "a\u{1b}[1mb", name: "x\u{1b}[2K\rqt_\n\u{202e}y", role: Open(rawValue: "x\u{1b}[2K"),
            bundleId: "com.\u{7}",
            secretHash: [], createdAt: Timestamp(milliseconds: 0))
        try await Ledger(storage: storage).put(key)
        try storage.close()
        let outcome = try CommandLineTests.run(["keys", "list"] + place.database)
        #expect(outcome.status == 0 && outcome.output.hasSuffix("\n"))
        let scalars = outcome.output.dropLast().unicodeScalars
        #expect(!scalars.contains { [.control, .format].contains($0.properties.generalCategory) }, "\(outcome.output)")
    }

    // MARK: Revoking

    @Test(arguments: [false, true])
    func `a key is revoked by its whole text, from an argument or standard input, and is not printed`(
        isPiped: Bool
    ) async throws {
        let place = try Place()
        let (key, other) = (try place.create(), try place.create("server", "com.example.two"))
        let outcome = try CommandLineTests.run(
            ["keys", "revoke", isPiped ? "-" : key] + place.options, input: isPiped ? Array("\(key)\n".utf8) : [])
        #expect(outcome.status == 0, "\(outcome.error)")
        let id = String(key.split(separator: "_")[1])
        #expect(outcome.output == "Revoked: \(id)  client  com.example.one  a name\n")
        #expect(try await place.keys().filter { $0.revokedAt != nil }.map(\.id) == [id])
        let again = try CommandLineTests.run(["keys", "revoke", key] + place.options)
        #expect(again.status == 0 && again.output.hasPrefix("Was revoked already"))
        #expect(!other.contains(id))
    }

    @Test func `a key can also be revoked by its id`() async throws {
        let place = try Place()
        let (key, _) = (try place.create(), try place.create())
        let id = String(key.split(separator: "_")[1])
        #expect(try CommandLineTests.run(["keys", "revoke", "--id", id] + place.options).status == 0)
        #expect(try await place.keys().filter { $0.revokedAt != nil }.map(\.id) == [id])
    }

    @Test func `part of a key, or a key with another secret, revokes nothing and is not printed`() async throws {
        let place = try Place()
        let key = try place.create()
        let id = String(key.split(separator: "_")[1])
        let swapped = key.dropLast(2) + String(key.suffix(1)) + (key.hasSuffix("a") ? "b" : "a")
        for text in [id, "qt_\(id)", String(key.dropLast()), String(swapped), key + "a", "", "--id=\(id.dropLast())"] {
            let outcome = try CommandLineTests.run(["keys", "revoke", text] + place.options)
            #expect(outcome.status == 2 && outcome.output.isEmpty)
            #expect(!outcome.error.contains(key.suffix(20).prefix(10)), "\(outcome.error)")
        }
        let two = try CommandLineTests.run(["keys", "revoke", key, key] + place.options)
        #expect(two.status == 2 && !two.error.contains(key.suffix(20)), "\(two.error)")
        #expect(try await place.keys().allSatisfy { $0.revokedAt == nil })
    }

    @Test(.takesLong) func `no message has a whole key, wherever it was passed by mistake`() async throws {
        let place = try Place()
        let key = try place.create()
        let secret = key.suffix(20).prefix(10)
        let create = ["keys", "create", "--role", "client", "--bundle-id", "com.example.one"]
        let wrong = [
            ["keys", "list", key], ["keys", key], [key], ["keys", "create", "--name", "x", "--role", key],
            create + ["--name", key], create + ["--name", "x", key], create + ["--nmae=\(key)"], create + ["--\(key)"],
            ["keys", "create", "--name", "x", "--role", "client", "--bundle-id", key], ["keys", "revoke", "-\(key)"],
            ["keys", "revoke", "--\(key)"], ["keys", "revoke", "--id", key], ["keys", "revoke", "--key", key],
            ["check", key], ["check", "--database", key], ["serve", "--port", key], ["serve", "--environment", key],
            ["serve", "--database", "sqlite:x", "--bundle-id", key], ["serve", "--config", key],
            ["verify", "-", "--bundle-id", "x", "--root", key], ["verify", "-", "--bundle-id", "x", "--at", key],
            ["keys", "customer-token", "--customer", "x", "--expires-in", key],
        ]
        for arguments in wrong {
            let isKeys = arguments.contains("revoke") || arguments.contains("create") && arguments.count > 6
            let outcome = try CommandLineTests.run(arguments + (isKeys ? place.options : []))
            #expect(outcome.status == 2 && outcome.output.isEmpty, "\(arguments)")
            #expect(!outcome.error.isEmpty && !outcome.error.contains(secret), "\(outcome.error)")
        }
        #expect(try await place.keys().count == 1)
    }

    // MARK: Permissions

    private static func modes(_ place: Place) throws -> [String: Int] {
        let names = try FileManager.default.contentsOfDirectory(atPath: place.folder.url.path)
        var modes: [String: Int] = [:]
        for name in names where name.contains(".sqlite") {
            let path = place.folder.url.appendingPathComponent(name).path
            modes[name] = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        }
        return modes
    }

    @Test(arguments: ["0", "777"])
    func `a new ledger and a backup are readable only by their owner, whatever the umask`(umask: String) async throws {
        let place = try Place()
        try FileManager.default.removeItem(atPath: place.ledger)
        let server = try await ServerProcess(place.options, in: place.folder.url, umask: umask)
        let names = ["", "-wal", "-shm", "-lock", "-erasures"].map { "ledger.sqlite" + $0 }
        #expect(try Self.modes(place) == Dictionary(uniqueKeysWithValues: names.map { ($0, 0o600) }))
        let copy = place.folder.url.appendingPathComponent("copy.sqlite").path
        let backup = ["sh", "-c", "umask \(umask); exec \"$@\"", "sh", CommandLineTests.program.path, "backup", copy]
        try TestProcess(backup + place.database).wait()
        #expect(try Self.modes(place)["copy.sqlite"] == 0o600)
        #expect(server.terminate() == 0)
    }

    @Test func `a wider file mode causes a warning and is not changed`() async throws {
        let place = try Place()
        try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: place.ledger)
        for arguments in [["keys", "list"], ["check"], ["rebuild"], ["backup", place.ledger + ".copy.sqlite"]] {
            let outcome = try CommandLineTests.run(arguments + place.database)
            #expect(outcome.status == 0)
            let lines = outcome.error.split(separator: "\n").filter { $0.contains("chmod 600 \(place.ledger)") }
            #expect(lines.count == 1 && lines[0].contains("(mode 640)"), "\(outcome.error)")
        }
        let server = try await ServerProcess(
            place.options, in: place.folder.url, environment: ["QUITTANCE_LOG_LEVEL": "warning"])
        #expect(server.terminate() == 0)
        let log = try String(contentsOf: place.folder.url.appendingPathComponent("server.txt"), encoding: .utf8)
        #expect(log.contains("(mode 640)"), "\(log)")
        #expect(try Self.modes(place)["ledger.sqlite"] == 0o640)
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import LedgerSQLite
import PurchaseLedger
import TestData
import TestProcess
import Testing

/// Tests `quittance grants` with correct and with mistaken arguments.
@Suite(.timeLimit(.minutes(60))) struct GrantCommandTests {
    /// A folder with a ledger and a configuration of an app.
    private final class Place: Sendable {
        let folder: URL

        init() throws {
            folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let configuration = """
                {"apps": [{"bundleId": "com.example", "products": {"month": {"entitlements": ["pro"]}},
                           "entitlements": ["gold"]}]}
                """
            try Data(configuration.utf8).write(to: folder.appendingPathComponent("quittance.json"))
            try SQLiteLedgerStorage(path: ledger).close()
        }

        deinit { try? FileManager.default.removeItem(at: folder) }

        var ledger: String { folder.appendingPathComponent("ledger.sqlite").path }

        func run(_ arguments: String...) throws -> CommandLineTests.Outcome {
            try CommandLineTests.run(
                ["grants"] + arguments + [
                    "--database", "sqlite:\(ledger)", "--config", folder.appendingPathComponent("quittance.json").path,
                ])
        }
    }

    @Test func `a grant is made, made once by its id, listed and ended`() throws {
        let place = try Place()
        let made = try place.run(
            "make", "anna", "--entitlement", "gold", "--why", "an outage", "--by", "Eva", "--id", "x",
            "--until", "2999-01-01T00:00:00Z")
        #expect(made.status == 0 && made.output == "x\n" && made.error.contains("Granted: x  gold"), "\(made)")
        let repeated = try place.run(
            "make", "anna", "--entitlement", "gold", "--why", "an outage", "--by", "Eva", "--id", "x",
            "--until", "2999-01-01T00:00:00Z", "--json")
        let grant = try JSONValue(parsing: repeated.output.utf8)
        #expect(repeated.status == 0 && grant["id"]?.string == "x" && grant["by"]?.string == "Eva", "\(repeated)")
        #expect(grant["key"] == nil)
        let other = try place.run("make", "anna", "--entitlement", "pro", "--why", "an outage", "--id", "x")
        #expect(other.status == 1 && other.error.contains("a different grant with this id"), "\(other)")
        let list = try place.run("list", "anna")
        #expect(list.status == 0 && list.output.split(separator: "\n").count == 1)
        #expect(list.output.contains("until 2999-01-01T00:00:00Z  an outage  Eva"), "\(list)")
        let nobody = try place.run("list", "nobody")
        #expect(nobody.status == 0 && nobody.output.isEmpty && nobody.error.contains("“nobody” has no grants"))
        let ended = try place.run("end", "anna", "x")
        #expect(ended.status == 0 && ended.output.hasPrefix("Ended: x  gold"), "\(ended)")
        let unknown = try place.run("end", "anna", "y")
        #expect(unknown.status == 1 && unknown.error.contains("no grant “y”"), "\(unknown)")
    }

    @Test(
        .takesLong,
        arguments: [
            (["make", "anna", "--entitlement", "silver", "--why", "w"], "has gold, pro"),
            (["make", "anna", "--entitlement", "pro"], "--why"), (["make", "anna", "--why", "w"], "--entitlement"),
            (["make", "anna", "--entitlement", "pro", "--why", "w", "--until", "tomorrow"], "--until takes a time"),
            (["make", "anna", "--entitlement", "pro", "--why", "w", "--id", "a/b"], "The id of a grant"),
            (["make", "an\u{202e}a", "--entitlement", "pro", "--why", "w"], "<customer>: U+202E at position 3"),
            (["make", "anna", "--entitlement", "pro", "--why", "w", "--by", "a\nb"], "by: U+000A at position 2"),
            (["make", "anna", "--entitlement", "pro", "--why", "w", "--bundle-id", "com.example.two"], "has no app"),
            (
                ["make", "anna", "--entitlement", "pro", "--why", "w", "--environment", "xcode"],
                "--environment Xcode: the configuration lacks it"
            ),
            (["end", "anna"], "<id>"),
        ])
    func `wrong usage is refused with status 2`(arguments: [String], message: String) throws {
        let place = try Place()
        let outcome = try CommandLineTests.run(
            ["grants"] + arguments + [
                "--database", "sqlite:\(place.ledger)", "--config",
                place.folder.appendingPathComponent("quittance.json").path,
            ])
        #expect(outcome.status == 2 && outcome.output.isEmpty && outcome.error.contains(message), "\(outcome)")
    }
}

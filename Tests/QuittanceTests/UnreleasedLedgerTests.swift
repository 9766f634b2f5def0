// SPDX-License-Identifier: Apache-2.0

import AppStoreSimulator
import Foundation
import LedgerSQLite
import PurchaseLedger
import TestData
import TestPostgres
import TestProcess
import TestWorld
import Testing

/// Tests that each command refuses a ledger that a commit before the first release wrote, and leaves it as it is.
@Suite(.timeLimit(.minutes(60))) struct UnreleasedLedgerTests {
    private static let refusal =
        "that no release wrote. It stays as it is, and only the program that wrote it reads it."
    private static let advice =
        "Make a new ledger in another place: submissions, notifications and quittance backfill fill it. Make grants, "
        + "attributes, corrections, API keys and webhook endpoints again"

    private static let app = ["--bundle-id", FilledLedger.scope.bundleId]

    /// The commands that open a ledger, apart from those that also name a file.
    private static let commands =
        [
            ["serve", "--port", "0"], ["keys", "create", "--name", "a", "--role", "server"], ["customer", "show", "a"],
            ["customer", "find", "a@example.com"], ["customer", "set", "a", "x=y"],
            ["customer", "move", "1", "--to", "a", "--reason", "a"],
            ["customer", "unlink", "a", "--alias", "b", "--reason", "a"],
            ["customer", "unmerge", "a", "--reason", "a"], ["purchases", "deny", "1", "--reason", "a"],
            ["purchases", "allow", "1", "--reason", "a"],
            ["grants", "make", "a", "--entitlement", "pro", "--why", "a"], ["grants", "list", "a"],
            ["grants", "end", "a", "b"],
            ["webhooks", "list"], ["products"], ["backfill", "-"], ["app-store", "order", "ORDER"],
            ["app-store", "refunds", "1"],
        ].map { $0 + app } + [
            ["keys", "list"], ["keys", "revoke", "--id", "abcdefgh"], ["jobs", "list"], ["jobs", "retry", "a"],
            ["check"],
            ["rebuild"], ["restore", "--new-epoch"],
        ]

    /// A configuration with a key for the App Store, without which some commands look at no ledger.
    private static func configuration(in folder: TemporaryFolder) throws -> [String] {
        var random = SystemRandomNumberGenerator()
        let key = try folder.write(StoreKey(using: &random).pem, to: "key.p8")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: key.path)
        let file = try folder.write(
            """
            {"appStoreServer": "http://127.0.0.1:1", "apps": [
             {"bundleId": "\(FilledLedger.scope.bundleId)",
              "inAppPurchaseKey": {"file": "\(key.path)", "keyId": "ABC1234567",
                                   "issuerId": "57246542-96fe-1a63-e053-0824d011072a"}}]}
            """, to: "quittance.json")
        return ["--config", file.path]
    }

    /// Runs commands on a ledger, and requires that each is refused and leaves the ledger as it is.
    private static func expectRefusals<Content: Equatable>(
        _ commands: [[String]], of address: String, _ content: () throws -> Content
    ) async throws {
        let folder = try TemporaryFolder()
        let configuration = try configuration(in: folder)
        let before = try content()
        for command in commands {
            let named = command.contains(address) || command.contains { address == "sqlite:\($0)" }
            let arguments = command + configuration + (named ? [] : ["--database", address])
            let outcome = try await aside { try CommandLineTests.run(arguments, input: Array("1\n".utf8)) }
            #expect(outcome.status == 1 && outcome.output.isEmpty, "\(command): \(outcome.output)\(outcome.error)")
            #expect(outcome.error.contains(refusal) && outcome.error.contains(advice), "\(command): \(outcome.error)")
            #expect(try content() == before, "\(command)")
        }
    }

    /// Makes the ledger of an earlier commit, as a killed server leaves it: with a log, and without the log's index.
    private static func makeFile(_ folder: TemporaryFolder) async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path("open"))
        try await FilledLedger.fill(storage, of: TestStore(), days: 5)
        try await storage.execute(
            """
            PRAGMA application_id = 0; PRAGMA user_version = 0;
            CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY);
            INSERT INTO grdb_migrations VALUES ('016 tables'), ('026 tables');
            PRAGMA wal_checkpoint(TRUNCATE);
            """)
        // The storage may empty its log at any time, so that a copy may find nothing in it.
        repeat {
            try await storage.proveWritable()
            for ending in ["", "-wal"] {
                let copy = folder.path("ledger.sqlite" + ending)
                try? FileManager.default.removeItem(atPath: copy)
                try FileManager.default.copyItem(atPath: folder.path("open" + ending), toPath: copy)
            }
        } while try folder.contents()["ledger.sqlite-wal"]?.isEmpty != false
        try storage.close()
        for name in try folder.contents().keys where name.hasPrefix("open") {
            try FileManager.default.removeItem(atPath: folder.path(name))
        }
        #expect(try folder.contents().keys.sorted() == ["ledger.sqlite", "ledger.sqlite-wal"])
        #expect(try folder.contents()["ledger.sqlite-wal"]?.isEmpty == false)
    }

    @Test func `a file of an earlier commit is refused by each command, and it and its log stay as they are`()
        async throws
    {
        let (folder, others) = (try TemporaryFolder(), try TemporaryFolder())
        try await Self.makeFile(folder)
        try SQLiteLedgerStorage(path: others.path()).close()
        let address = "sqlite:\(folder.path())"
        let files = [
            ["backup", others.path("backup")], ["copy", "--to", "sqlite:\(others.path("copy"))"],
            ["copy", "--database", "sqlite:\(others.path())", "--to", address],
            ["restore", folder.path(), "--database", "sqlite:\(others.path("restored"))"],
        ]
        try await Self.expectRefusals(Self.commands + files, of: address, folder.contents)
        #expect(try others.contents().keys.allSatisfy { $0.hasPrefix("ledger.sqlite") || $0.hasSuffix("-lock") })
    }

    @Test func `a restore moves a file of an earlier commit aside as it is`() async throws {
        let (folder, others) = (try TemporaryFolder(), try TemporaryFolder())
        try await Self.makeFile(folder)
        let before = try folder.contents()
        try SQLiteLedgerStorage(path: others.path()).close()
        let outcome = try await aside {
            try CommandLineTests.run(["restore", others.path(), "--database", "sqlite:\(folder.path())"])
        }
        #expect(outcome.status == 0 && outcome.error.contains(Self.refusal), "\(outcome.error)")
        let after = try folder.contents()
        for ending in ["", "-wal"] {
            let moved = after.filter { $0.key.contains(".replaced-") && $0.key.hasSuffix("Z" + ending) }
            #expect(moved.map(\.value) == [before["ledger.sqlite" + ending]])
        }
    }

    @Test(.enabled(if: TestPostgres.isThere, "\(TestPostgres.whyNot)"))
    func `a database of an earlier commit is refused by each command, and stays as it is`() async throws {
        let (database, folder) = (try TestPostgres.database(), try TemporaryFolder())
        let address = TestPostgres.uri(database.name, at: [database.server.folder])
        let (file, copy) = ("sqlite:\(folder.path())", "sqlite:\(folder.path("copy"))")
        let storage = try SQLiteLedgerStorage(path: folder.path())
        try await FilledLedger.fill(storage, of: TestStore(), days: 5)
        try storage.close()
        let roots = try TestStore().writeRoots(to: folder.url).flatMap { ["--root", $0] }
        let outcome = try await aside {
            try CommandLineTests.run(["copy", "--database", file, "--to", address] + roots)
        }
        #expect(outcome.status == 0, "\(outcome.error)")
        try database.psql("UPDATE quittance.schema_version SET version = 22")
        let commands =
            Self.commands + [
                ["migrate"], ["migrate", "--server-role", "postgres"], ["copy", "--to", copy],
                ["copy", "--database", file, "--to", address] + roots,
            ]
        try await Self.expectRefusals(commands, of: address, database.dump)
        #expect(!FileManager.default.fileExists(atPath: folder.path("copy")))
    }
}

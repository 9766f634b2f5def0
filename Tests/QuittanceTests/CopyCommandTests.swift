// SPDX-License-Identifier: Apache-2.0

import AppStoreSimulator
import Foundation
import LedgerSQLite
import PurchaseLedger
import TestData
import TestPostgres
import TestWorld
import Testing

/// Tests `quittance copy`, and what else has to do with a ledger that moves.
@Suite struct CopyCommandTests {
    /// A temporary folder with a ledger that has every kind of record, and the roots of its App Store.
    private final class LedgerFolder: Sendable {
        let folder: TemporaryFolder
        let roots: [String]

        init() async throws {
            folder = try TemporaryFolder()
            let store = try TestStore()
            roots = try store.writeRoots(to: folder.url).flatMap { ["--root", $0] }
            let storage = try SQLiteLedgerStorage(path: folder.path())
            try await FilledLedger.fill(storage, of: store, days: 10)
            try storage.close()
        }

        func path(_ name: String = "ledger.sqlite") -> String { folder.path(name) }

        func run(_ command: String, _ source: String, to target: String? = nil) throws -> CommandLineTests.Outcome {
            let to = target.map { ["--to", $0] } ?? []
            return try CommandLineTests.run([command, "--database", source] + to + roots)
        }
    }

    static func content(_ path: String) async throws -> LedgerContent {
        let storage = try SQLiteLedgerStorage(reading: path)
        defer { try? storage.close() }
        return try await LedgerContent(of: storage)
    }

    @Test(.takesLong, .enabled(if: TestPostgres.isThere, "\(TestPostgres.whyNot)"))
    func `a ledger is copied into a database, checked there, and copied back`() async throws {
        let (folder, database) = (try await LedgerFolder(), try TestPostgres.database())
        let (file, back) = ("sqlite:\(folder.path())", "sqlite:\(folder.path("back.sqlite"))")
        let uri = TestPostgres.uri(database.name, at: [database.server.folder])
        for (source, target) in [(file, uri), (uri, back)] {
            let outcome = try folder.run("copy", source, to: target)
            #expect(outcome.status == 0, "\(outcome.error)")
            #expect(outcome.output.hasPrefix("Copied: ") && outcome.output.contains("3 API keys"))
            #expect(outcome.output.hasSuffix("; nothing differs.\n"))
        }
        // The same database by another address.
        let outcome = try folder.run("copy", uri, to: uri + "&application_name=copy")
        #expect(outcome.status == 2, "\(outcome.error)")
        #expect(outcome.error.contains("--to is the ledger itself"))
        for ledger in [uri, back] {
            for command in ["check", "rebuild"] {
                let outcome = try folder.run(command, ledger)
                #expect(outcome.status == 0, "\(command): \(outcome.error)")
            }
        }
        #expect(try await Self.content(folder.path("back.sqlite")) == Self.content(folder.path()))
        let again = try folder.run("copy", file, to: uri)
        #expect(again.status == 0 && again.output.hasPrefix("Copied: 0 customers, 0 purchases, 0 documents, "))
    }

    @Test(.takesLong, .enabled(if: TestPostgres.isThere, "\(TestPostgres.whyNot)"))
    func `a check of a database finds a document that was changed, and a backup says what to do`() async throws {
        let (folder, database) = (try await LedgerFolder(), try TestPostgres.database())
        let uri = TestPostgres.uri(database.name, at: [database.server.folder])
        #expect(try folder.run("copy", "sqlite:\(folder.path())", to: uri).status == 0)
        try database.psql(
            """
            UPDATE quittance.documents SET content = content || '\\x00'
            WHERE digest = (SELECT digest FROM quittance.documents ORDER BY digest LIMIT 1)
            """)
        let outcome = try folder.run("check", uri)
        #expect(outcome.status == 1 && outcome.output.contains("faults: "), "\(outcome.output)\(outcome.error)")
        let backup = try CommandLineTests.run(["backup", folder.path("copy"), "--database", uri])
        #expect(backup.status == 2)
        #expect(backup.error.contains("pg_dump") && backup.error.contains("quittance copy"), "\(backup.error)")
    }

    @Test(.takesLong) func `a ledger that a server uses is not copied, nor copied into`() async throws {
        let folder = try await LedgerFolder()
        let (file, other) = ("sqlite:\(folder.path())", "sqlite:\(folder.path("other.sqlite"))")
        let serve = ["--bundle-id", "com.example", "--database"]
        let server = try await ServerProcess(serve + [file] + folder.roots, in: folder.folder.url)
        let refused = try folder.run("copy", file, to: other)
        #expect(refused.status == 1)
        #expect(refused.error.contains("Another server uses this ledger: stop it first"), "\(refused.error)")
        #expect(!FileManager.default.fileExists(atPath: folder.path("other.sqlite")))
        #expect(server.terminate() == 0)
        let second = try await ServerProcess(serve + [other], in: folder.folder.url)
        #expect(try folder.run("copy", file, to: other).error.contains("Another server uses this ledger"))
        #expect(second.terminate() == 0)
        // The server may have noted in it that it has nothing to upgrade, which the source lacks.
        #expect(!(try folder.run("copy", file, to: other).error.contains("Another server uses this ledger")))
        #expect(try folder.run("copy", file, to: "sqlite:\(folder.path("third.sqlite"))").status == 0)
    }

    @Test func `a target that has anything else is refused, and so is a changed document`() async throws {
        let folder = try await LedgerFolder()
        let (file, other) = ("sqlite:\(folder.path())", "sqlite:\(folder.path("other.sqlite"))")
        try SQLiteLedgerStorage(path: folder.path("other.sqlite")).close()
        let key = ["keys", "create", "--name", "a", "--role", "server", "--bundle-id", "com.example"]
        #expect(try CommandLineTests.run(key + ["--database", other]).status == 0)
        let refused = try folder.run("copy", file, to: other)
        #expect(refused.status == 1 && refused.output.isEmpty)
        // The target also has the audit entry of the key. Random names decide which of the two is found first.
        let subjects = ["the API key ", "the record audit "]
        #expect(subjects.contains { refused.error.contains("The target has \($0)") }, "\(refused.error)")
        let storage = try SQLiteLedgerStorage(path: folder.path())
        try await storage.execute(
            """
            UPDATE documents SET content = CAST(content || x'00' AS BLOB)
            WHERE number = (SELECT max(number) FROM documents)
            """)
        try storage.close()
        let damaged = try folder.run("copy", file, to: "sqlite:\(folder.path("third.sqlite"))")
        #expect(damaged.status == 1 && damaged.output.isEmpty)
        #expect(damaged.error.contains("ocument "), "\(damaged.error)")
    }

    @Test func `wrong usage ends with status 2, and makes no target`() async throws {
        let folder = try await LedgerFolder()
        let (file, missing) = ("sqlite:\(folder.path())", "sqlite:\(folder.path("missing.sqlite"))")
        let link = folder.path("link.sqlite")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: folder.path())
        let roundabout = folder.path("../\(folder.folder.url.lastPathComponent)/ledger.sqlite")
        for (source, target, message) in [
            (file, file, "--to is the ledger itself"), (file, "sqlite:\(link)", "--to is the ledger itself"),
            ("sqlite:\(link)", "sqlite:\(roundabout)", "--to is the ledger itself"),
            (missing, "sqlite:\(folder.path("x"))", "There is no ledger at"),
            (file, "ledger.sqlite", "--to: Expected sqlite:PATH"), (file, nil, "--to"),
        ] {
            let outcome = try folder.run("copy", source, to: target)
            #expect(outcome.status == 2 && outcome.error.contains(message), "\(outcome.error)")
        }
        #expect(!FileManager.default.fileExists(atPath: folder.path("x")))
    }
}

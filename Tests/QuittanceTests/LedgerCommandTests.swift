// SPDX-License-Identifier: Apache-2.0

import Foundation
import GRDB
import LedgerSQLite
import NIOHTTP1
import TestData
import Testing

/// Tests commands on files that are not ledgers, on missing ledgers, and on lists and names of keys.
@Suite struct LedgerCommandTests {
    private static func withFolder(_ body: (_ path: (String) -> String) throws -> Void) throws {
        let folder = try TemporaryFolder()
        try body { folder.url.appendingPathComponent($0).path }
    }

    private static func run(_ arguments: [String], _ path: String) throws -> CommandLineTests.Outcome {
        try CommandLineTests.run(arguments + ["--database", "sqlite:\(path)"])
    }

    @Test(arguments: [
        ["keys", "list"], ["keys", "create", "--name", "a", "--role", "server", "--bundle-id", "com.example"],
        ["keys", "revoke", "--id", "a"], ["check"], ["rebuild"],
        ["serve", "--bundle-id", "com.example", "--port", "0"],
    ])
    func `another program's database is refused, and stays unchanged`(arguments: [String]) throws {
        try Self.withFolder { path in
            let file = path("bookmarks.sqlite")
            try DatabaseQueue(path: file).write { try $0.execute(sql: "CREATE TABLE bookmarks (url TEXT)") }
            let before = try Data(contentsOf: URL(fileURLWithPath: file))
            let outcome = try Self.run(arguments, file)
            #expect(outcome.status == 1)
            #expect(outcome.error.contains("Cannot open the ledger at \(file): damaged: "))
            #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == before)
        }
    }

    @Test(arguments: [["keys", "list"], ["check"], ["rebuild"], ["backup", "/nowhere/copy.sqlite"]])
    func `a file or a folder that is no ledger is not said to have the hashes of API keys`(arguments: [String]) throws {
        try Self.withFolder { path in
            try Data("no ledger".utf8).write(to: URL(fileURLWithPath: path("roots.pem")))
            try FileManager.default.createDirectory(atPath: path("folder"), withIntermediateDirectories: false)
            for (name, mode) in [("roots.pem", 0o644), ("folder", 0o755)] {
                try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path(name))
                let outcome = try Self.run(arguments, path(name))
                #expect(outcome.status != 0 && !outcome.error.contains("chmod 600"), "\(outcome.error)")
            }
        }
    }

    @Test func `listing the keys does not change the ledger`() throws {
        try Self.withFolder { path in
            let file = path("ledger.sqlite")
            try SQLiteLedgerStorage(path: file).close()
            #expect(
                try Self.run(
                    ["keys", "create", "--name", "a name", "--role", "client", "--bundle-id", "com.example"], file
                ).status == 0)
            let before = try Data(contentsOf: URL(fileURLWithPath: file))
            let outcome = try Self.run(["keys", "list"], file)
            #expect(outcome.status == 0 && outcome.output.contains("  a name  "))
            #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == before)
        }
    }

    @Test(arguments: ["", " ", "a\nb", "a\u{2028}b", "a\u{1b}[31m", String(repeating: "a", count: 101)])
    func `a key's name that is blank, too long or has control characters is refused`(name: String) throws {
        try Self.withFolder { path in
            try SQLiteLedgerStorage(path: path("ledger.sqlite")).close()
            let outcome = try Self.run(
                ["keys", "create", "--name", name, "--role", "client", "--bundle-id", "com.example"],
                path("ledger.sqlite"))
            #expect(outcome.status == 2 && outcome.output.isEmpty)
            #expect(outcome.error.contains("--name: "), "\(outcome.error)")
        }
    }

    @Test func `a missing folder, or a folder instead of a file, is an error with its path`() throws {
        try Self.withFolder { path in
            let serve = ["serve", "--bundle-id", "com.example", "--port", "0"]
            let missing = try Self.run(serve, path("none/ledger.sqlite"))
            #expect(
                missing.status == 1 && missing.error.contains("There is no folder \(path("none")): make the folder"))
            for arguments in [serve, ["check"], ["backup", path("copy")]] {
                let outcome = try Self.run(arguments, path("."))
                #expect(outcome.status == 1 && outcome.error.contains("is a folder: name a file in the folder"))
            }
        }
    }

    @Test func `a second server on one ledger is refused, commands are not, and a killed server leaves no lock`()
        async throws
    {
        try await TemporaryFolder.with { folder in
            let file = folder.appendingPathComponent("ledger.sqlite").path
            let serve = ["--bundle-id", "com.example", "--database", "sqlite:\(file)"]
            let first = try await ServerProcess(serve, in: folder)
            let second = try CommandLineTests.run(["serve", "--port", "0"] + serve)
            #expect(second.status == 1)
            #expect(second.error.contains("Cannot open the ledger at \(file): "), "\(second.error)")
            #expect(second.error.contains("Another server uses this ledger: stop it first"), "\(second.error)")
            let copy = folder.appendingPathComponent("copy.sqlite").path
            for command in [
                ["keys", "create", "--name", "a", "--role", "server", "--bundle-id", "com.example"], ["keys", "list"],
                ["check"], ["rebuild"], ["backup", copy],
            ] {
                let outcome = try Self.run(command, file)
                #expect(outcome.status == 0, "\(command): \(outcome.error)")
            }
            #expect(try await first.send(.GET, "/health/ready").status == 200)
            first.kill()
            #expect(try await ServerProcess(serve, in: folder).terminate() == 0)
        }
    }

    /// A page of zeros is what many file systems leave of a page that they could not write.
    @Test(.takesLong)
    func `check and rebuild exit with status 1 if pages were zeroed, whichever they are`() async throws {
        try await TemporaryFolder.with { folder in
            let file = folder.appendingPathComponent("ledger.sqlite")
            let storage = try SQLiteLedgerStorage(path: file.path)
            for name in ["a", "b"] {
                _ = try Self.run(["keys", "create", "--name", name, "--role", "server", "--bundle-id", "x"], file.path)
            }
            // Without it, a page might be free, and zeros in it no damage.
            try await storage.execute("VACUUM")
            try storage.close()
            let whole = [UInt8](try Data(contentsOf: file))
            let (size, count) = (4096, whole.count / 4096)
            var zeroed = (0..<count).map { $0..<$0 + 1 }
            zeroed += [0..<count, 1..<count, 0..<count / 2, count / 2..<count]
            for pages in zeroed {
                for ending in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: file.path + ending) }
                var damaged = whole
                let bytes = pages.lowerBound * size..<pages.upperBound * size
                damaged.replaceSubrange(bytes, with: repeatElement(0, count: bytes.count))
                try Data(damaged).write(to: file)
                for command in ["check", "rebuild"] {
                    let outcome = try Self.run([command], file.path)
                    #expect(outcome.status == 1, "\(command), \(pages): \(outcome)")
                    #expect(!outcome.error.isEmpty)
                }
            }
        }
    }

    @Test(arguments: [["check"], ["keys", "revoke", "--id", "a"], ["serve", "--bundle-id", "com.example"]])
    func `an error of a running command is printed without the usage`(arguments: [String]) throws {
        let outcome = try CommandLineTests.run(
            arguments + (arguments[0] == "serve" ? [] : ["--database", "sqlite:/nowhere"]))
        #expect(outcome.status == 2)
        #expect(outcome.error.hasPrefix("quittance: ") && !outcome.error.contains("sage"))
        #expect(outcome.error.split(separator: "\n").count == 1, "\(outcome.error)")
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import LedgerSQLite
import PurchaseLedger
import TestData
import TestProcess
import Testing

/// Tests a ledger whose file is removed, replaced, or cannot be written for a while.
@Suite struct FileTroubleTests {
    private let folder: TemporaryFolder
    init() throws {
        folder = try TemporaryFolder()
    }

    private static func add(_ text: String, to storage: SQLiteLedgerStorage) async throws {
        try await storage.store(.unverified(Array(text.utf8)))
    }

    private static func documents(of storage: SQLiteLedgerStorage) async throws -> [String] {
        try await storage.texts()
    }

    private static func error(_ body: () async throws -> Void) async -> LedgerStorageError? {
        do {
            try await body()
            return nil
        } catch {
            return error as? LedgerStorageError
        }
    }

    private static let endings = ["", "-wal", "-shm"]

    private func mode(_ name: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: folder.path(name))[.posixPermissions] as? Int
    }

    @Test func `only its owner may read a new ledger, and a file that exists keeps its mode`() async throws {
        let old = folder.path("old")
        try #require(
            FileManager.default.createFile(atPath: old, contents: nil, attributes: [.posixPermissions: 0o664]))
        for (name, expected) in [("new", 0o600), ("old", 0o664)] {
            let storage = try SQLiteLedgerStorage(path: folder.path(name))
            try await Self.add("a", to: storage)
            for ending in Self.endings { #expect(try mode(name + ending) == expected) }
            let exposed = expected == 0o600 ? [] : Self.endings.map { folder.path(name + $0) }
            let warning = SQLiteLedgerStorage.exposure(of: folder.path(name))
            #expect((warning == nil) == exposed.isEmpty)
            let end = "(mode 664), which has customers' purchases and the hashes of API keys: chmod 600 "
            #expect(warning?.hasSuffix(end + exposed.joined(separator: " ")) ?? true, "\(warning ?? "")")
            try storage.close()
        }
    }

    @Test func `the target of a symbolic link gets the mode of a new ledger`() async throws {
        try FileManager.default.createSymbolicLink(
            atPath: folder.path("link"), withDestinationPath: folder.path("target"))
        try SQLiteLedgerStorage(path: folder.path("link")).close()
        #expect(try mode("target") == 0o600)
    }

    private func move(_ endings: [String], _ from: String, to target: String) throws {
        for ending in endings {
            try FileManager.default.moveItem(
                atPath: folder.path(from + ending), toPath: folder.path(target + ending))
        }
    }

    @Test(arguments: [endings, ["", "-wal"], [""], ["-wal"], ["-shm"]])
    func `reads and writes fail while a file of the ledger is missing, and never create a new file`(
        taken: [String]
    ) async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        try await Self.add("1", to: storage)
        try move(taken, "ledger.sqlite", to: "away")
        for _ in 0..<2 {
            let error = await Self.error { try await Self.add("2", to: storage) }
            #expect(error?.code == .unavailable)
            #expect(error?.message.contains("is missing") == true)
            #expect(await Self.error { _ = try await Self.documents(of: storage) }?.code == .unavailable)
        }
        for ending in taken { #expect(!FileManager.default.fileExists(atPath: folder.path("ledger.sqlite" + ending))) }
        try move(taken, "away", to: "ledger.sqlite")
        try await Self.add("3", to: storage)
        #expect(try await Self.documents(of: storage).contains("3"))
    }

    @Test func `writes fail after the ledger was replaced, and the new file stays unchanged`() async throws {
        let copy = try SQLiteLedgerStorage(path: folder.path("copy"))
        try await Self.add("of the copy", to: copy)
        try copy.close()
        let storage = try SQLiteLedgerStorage(path: folder.path())
        try await Self.add("1", to: storage)
        try move(Self.endings, "ledger.sqlite", to: "away")
        try move([""], "copy", to: "ledger.sqlite")
        let restored = try Data(contentsOf: URL(fileURLWithPath: folder.path()))
        let error = await Self.error { try await Self.add("2", to: storage) }
        #expect(error?.message.contains("was replaced") == true)
        // Another server opens the new file. Its log must stay when the first storage is closed.
        let next = try SQLiteLedgerStorage(path: folder.path())
        #expect(try Data(contentsOf: URL(fileURLWithPath: folder.path())) == restored)
        try await Self.add("of the next", to: next)
        try storage.close()
        #expect(FileManager.default.fileExists(atPath: folder.path("ledger.sqlite-wal")))
        #expect(try await Self.documents(of: next) == ["of the copy", "of the next"])
    }

    @Test func `a ledger that must exist is not created`() async throws {
        let path = folder.path()
        func code() async -> LedgerStorageError.Code? {
            await Self.error { _ = try SQLiteLedgerStorage(path: path, createIfMissing: false) }?.code
        }
        #expect(await code() == .unavailable)
        #expect(!FileManager.default.fileExists(atPath: path))
        try Data().write(to: URL(fileURLWithPath: path))
        #expect(await code() == .damaged)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)).isEmpty)
    }

    @Test(.enabled(if: WriteProtection.isPossible, "only with a file system that protects files from this user"))
    func `a ledger that is write-protected when it is opened can be read, and written after the protection ends`()
        async throws
    {
        let before = try SQLiteLedgerStorage(path: folder.path())
        try await Self.add("1", to: before)
        // Leaves the log and its index, as a crash does.
        let files = Self.endings.map { folder.path("ledger.sqlite" + $0) }
        for file in files { try FileManager.default.copyItem(atPath: file, toPath: file + ".copy") }
        try before.close()
        for file in files {
            try? FileManager.default.removeItem(atPath: file)
            try FileManager.default.moveItem(atPath: file + ".copy", toPath: file)
        }
        let protection = try WriteProtection(files)
        let storage = try SQLiteLedgerStorage(path: folder.path())
        for _ in 0..<3 {
            #expect(await Self.error { try await Self.add("2", to: storage) }?.code == .readOnly)
            #expect(try await Self.documents(of: storage) == ["1"])
        }
        try protection.end()
        try await Self.add("2", to: storage)
        #expect(try await Self.documents(of: storage) == ["1", "2"])
    }

    @Test func `reads and writes do not hang while the ledger's file is reopened again and again`() async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<2 {
                group.addTask {
                    for number in 0..<50 {
                        let error = await Self.error {
                            try await storage.commit { _ in throw LedgerStorageError(.readOnly, "a test") }
                        }
                        #expect(error?.code == .readOnly)
                        // After an error `readOnly`, the next write reopens the file.
                        try await Self.add("\(task) \(number)", to: storage)
                        // A read that began before the file was closed may fail.
                        _ = try? await Self.documents(of: storage)
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try await Self.documents(of: storage).count == 100)
    }

    @Test func `a write-ahead log of more than 1 GiB is a concern`() async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        try await Self.add("1", to: storage)
        #expect(storage.condition.concern == nil)
        let log = try #require(FileHandle(forWritingAtPath: folder.path("ledger.sqlite-wal")))
        // The file is sparse: it takes no space on the disk.
        try log.truncate(atOffset: 1 << 30 + 1)
        #expect(storage.condition.concern?.contains("ledger.sqlite-wal has 1024 MiB") == true)
    }
}

/// Makes files unwritable for a while by their permissions. Permissions do not bind the superuser: for it, an attribute
/// of Linux's file systems does the same.
private struct WriteProtection {
    private let files: [String]

    init(_ files: [String]) throws {
        self.files = files
        for file in files { try Self.set(file, isProtected: true) }
    }

    func end() throws {
        for file in files { try Self.set(file, isProtected: false) }
    }

    static let isPossible: Bool = {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path
        defer { try? FileManager.default.removeItem(atPath: file) }
        guard FileManager.default.createFile(atPath: file, contents: nil) else { return false }
        guard let protection = try? WriteProtection([file]) else { return false }
        defer { try? protection.end() }
        return FileHandle(forWritingAtPath: file) == nil
    }()

    private static func set(_ file: String, isProtected: Bool) throws {
        guard geteuid() == 0 else {
            return try FileManager.default.setAttributes(
                [.posixPermissions: isProtected ? 0o444 : 0o644], ofItemAtPath: file)
        }
        guard try TestProcess(["/usr/bin/chattr", isProtected ? "+i" : "-i", file]).wait() == 0 else {
            throw CocoaError(.fileWriteNoPermission)
        }
    }
}

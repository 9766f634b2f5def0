// SPDX-License-Identifier: Apache-2.0

import Foundation
import GRDB
import LedgerSQLite
import PurchaseLedger
import TestData
import Testing

/// Tests paths at which there is no ledger of a release.
@Suite struct ForeignFileTests {
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
    }

    /// The content of a file, and a part of the message with which it is refused.
    @Test(arguments: [
        ("CREATE TABLE bookmarks (url TEXT)", "the database of another program, or a ledger that no release wrote"),
        (
            "CREATE TABLE bookmarks (url TEXT); PRAGMA application_id = 7; PRAGMA user_version = 27",
            "the database of another program, and no ledger"
        ),
        // As a commit before the first release made a ledger.
        (
            "CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY); CREATE TABLE apps (id INTEGER)",
            "Make a new ledger in another place: submissions, notifications and quittance backfill fill it."
        ),
        (
            "PRAGMA application_id = 0x51756974; PRAGMA user_version = 26; CREATE TABLE apps (id INTEGER)",
            "The tables have version 26, and this is a ledger that no release wrote."
        ),
    ])
    func `a file that is no ledger of a release is refused, and it and its log stay unchanged`(
        tables: String, reason: String
    ) async throws {
        let path = folder.path("file")
        let queue = try DatabaseQueue(path: folder.path("open"))
        try await queue.writeWithoutTransaction { connection in
            try connection.execute(sql: tables + "; PRAGMA journal_mode = WAL; CREATE TABLE in_the_log (id INTEGER)")
        }
        // As a killed process leaves them, without the index of the log.
        for ending in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: folder.path("open" + ending), toPath: path + ending)
        }
        try queue.close()
        for name in try folder.contents().keys where name.hasPrefix("open") {
            try FileManager.default.removeItem(atPath: folder.path(name))
        }
        let before = try folder.contents()
        #expect(before.keys.sorted() == ["file", "file-wal"] && before["file-wal"]?.isEmpty == false)
        for error in refusals(of: path, copyingTo: folder.path("copy")) {
            #expect(error?.code == .damaged && error?.isPassing == false)
            #expect(error?.message.contains(reason) == true, "\(error?.message ?? "")")
        }
        #expect(try folder.contents() == before)
    }

    @Test(arguments: [0, 100, 4096])
    func `a file of zeros, which a power failure can leave, is no ledger`(count: Int) throws {
        try Data(count: count).write(to: URL(fileURLWithPath: folder.path()))
        #expect(throws: LedgerStorageError.self) {
            _ = try SQLiteLedgerStorage(path: folder.path(), createIfMissing: false)
        }
        #expect(throws: LedgerStorageError.self) { _ = try SQLiteLedgerStorage(reading: folder.path()) }
    }

    /// The tables are written in one transaction with a journal. A killed process leaves both files.
    @Test func `a ledger whose creation was interrupted is created by the next server alone`() async throws {
        let queue = try DatabaseQueue(path: folder.path("open"))
        try await queue.writeWithoutTransaction { connection in
            // A small cache makes SQLite write pages before the commit.
            try connection.execute(
                sql: """
                    PRAGMA cache_size = 1; BEGIN EXCLUSIVE;
                    PRAGMA application_id = 0x51756974; PRAGMA user_version = 27;
                    CREATE TABLE apps (id INTEGER PRIMARY KEY, name TEXT);
                    INSERT INTO apps (name) VALUES (hex(randomblob(100000)));
                    """)
            for ending in ["", "-journal"] {
                try FileManager.default.copyItem(
                    atPath: folder.path("open" + ending), toPath: folder.path("ledger.sqlite" + ending))
            }
            try connection.execute(sql: "ROLLBACK")
        }
        try queue.close()
        try #require(try folder.contents()["ledger.sqlite"]?.isEmpty == false)
        try #require(try folder.contents()["ledger.sqlite-journal"]?.isEmpty == false)
        #expect(throws: LedgerStorageError.self) { _ = try SQLiteLedgerStorage(reading: folder.path()) }
        let storage = try SQLiteLedgerStorage(path: folder.path())
        #expect(try await storage.faults() == [])
        try storage.close()
        #expect(try await SQLiteLedgerStorage(reading: folder.path()).documentCount() == 0)
    }

    @Test func `a file without a log names the ledger in its header as soon as the ledger exists`() async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        let header = try #require(try folder.contents()["ledger.sqlite"])
        #expect(header[60..<72] == Data([0, 0, 0, 33, 0, 0, 0, 0, 0x51, 0x75, 0x69, 0x74]))
        try storage.close()
    }

    /// SQLite would lose its locks on the file if the look at the header closed a handle of its own.
    @Test func `a second look leaves the locks of an open ledger in place`() async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        #expect(try SQLiteLedgerStorage.loss(at: folder.path()) == nil)
        let locks = try String(contentsOf: URL(fileURLWithPath: "/proc/locks"), encoding: .utf8)
        var status = stat()
        #expect(stat(folder.path(), &status) == 0)
        #expect(locks.contains(":\(status.st_ino) "))
        try storage.close()
    }

    @Test func `the error names the path if it is a folder, or the folder that does not exist`() throws {
        let inner = folder.path("inner")
        try FileManager.default.createDirectory(atPath: inner, withIntermediateDirectories: false)
        for error in refusals(of: inner, copyingTo: folder.path("copy")) {
            #expect(error?.message == "\(inner) is a folder: name a file in the folder")
        }
        for error in refusals(of: "\(inner)/none/ledger.sqlite", copyingTo: folder.path("copy")) {
            #expect(error?.message == "There is no folder \(inner)/none: make the folder, or name a different file")
        }
    }
}

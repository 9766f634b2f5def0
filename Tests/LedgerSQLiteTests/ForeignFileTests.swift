// SPDX-License-Identifier: Apache-2.0

import Foundation
import GRDB
import LedgerSQLite
import PurchaseLedger
import TestData
import Testing

/// Tests paths at which there is no ledger.
@Suite struct ForeignFileTests {
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
    }

    /// The error of each way to open a ledger; `nil` if there is none.
    private func errors(of path: String) -> [LedgerStorageError?] {
        let ways: [() throws -> Void] = [
            { _ = try SQLiteLedgerStorage(path: path) },
            { _ = try SQLiteLedgerStorage(path: path, createIfMissing: false) },
            { _ = try SQLiteLedgerStorage(reading: path) },
            { _ = try SQLiteLedgerBackup.copy(path, to: folder.path("copy")) },
        ]
        return ways.map { open in
            do {
                try open()
                return nil
            } catch {
                return error as? LedgerStorageError
            }
        }
    }

    @Test(arguments: [
        "CREATE TABLE bookmarks (url TEXT)",
        // A program that uses the same library, GRDB.
        "CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY); CREATE TABLE bookmarks (url TEXT);"
            + "INSERT INTO grdb_migrations VALUES ('1')",
    ])
    func `another program's database is refused, and stays unchanged`(tables: String) async throws {
        let path = folder.path()
        try await DatabaseQueue(path: path).write { try $0.execute(sql: tables) }
        let before = try Data(contentsOf: URL(fileURLWithPath: path))
        for error in errors(of: path) {
            #expect(error?.code == .damaged && error?.message == "This is a database, but no ledger")
        }
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == before)
    }

    @Test func `a ledger whose creation was interrupted before the first step can still be created`() async throws {
        try await DatabaseQueue(path: folder.path()).write {
            try $0.execute(sql: "CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY)")
        }
        #expect(throws: LedgerStorageError.self) {
            _ = try SQLiteLedgerStorage(path: folder.path(), createIfMissing: false)
        }
        #expect(try await SQLiteLedgerStorage(path: folder.path()).faults() == [])
    }

    @Test func `the error names the path if it is a folder, or the folder that does not exist`() throws {
        let inner = folder.path("inner")
        try FileManager.default.createDirectory(atPath: inner, withIntermediateDirectories: false)
        for error in errors(of: inner) { #expect(error?.message == "\(inner) is a folder: name a file in the folder") }
        for error in errors(of: "\(inner)/none/ledger.sqlite") {
            #expect(error?.message == "There is no folder \(inner)/none: make the folder, or name a different file")
        }
    }
}

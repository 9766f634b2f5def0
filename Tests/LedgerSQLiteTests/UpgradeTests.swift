// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import GRDB
import PurchaseLedger
import TestData
import TestProcess
import Testing

@testable import LedgerSQLite

/// Tests the upgrade of a file that an older version wrote. ``OldLedgerTests`` compare what it answers.
@Suite struct UpgradeTests {
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
        try OldLedger.write(to: folder.path())
    }

    private func bytes() throws -> Data { try Data(contentsOf: URL(fileURLWithPath: folder.path())) }

    private func change(_ sql: String) throws {
        let queue = try DatabaseQueue(path: folder.path())
        try queue.writeWithoutTransaction { try $0.execute(sql: sql) }
        try queue.close()
    }

    private static func steps(_ path: String) throws -> [String] {
        try DatabaseQueue(path: path).read {
            try String.fetchAll($0, sql: "SELECT identifier FROM grdb_migrations ORDER BY 1")
        }
    }

    /// SQLite adds the text of a column to that of its table, on the same line.
    private static func schema(_ path: String) throws -> [String] {
        try DatabaseQueue(path: path).read { connection in
            try String.fetchAll(
                connection, sql: "SELECT type || ' ' || name || ': ' || coalesce(sql, '') FROM sqlite_schema ORDER BY 1"
            )
        }.map { $0.filter { !$0.isWhitespace } }
    }

    @Test func `an upgraded file has the tables of a new one, and no fault`() async throws {
        let upgraded = try SQLiteLedgerStorage(path: folder.path())
        #expect(try await upgraded.faults() == [])
        #expect(try await upgraded.documentCount() == 139)
        try upgraded.close()
        try SQLiteLedgerStorage(path: folder.path("new")).close()
        #expect(try Self.schema(folder.path()) == Self.schema(folder.path("new")))
        #expect(try Self.steps(folder.path()) == Self.steps(folder.path("new")))
    }

    @Test func `a file of the previous version gets the columns that it lacks`() throws {
        let path = folder.path("previous")
        try SQLiteLedgerStorage(path: path).close()
        let new = try Self.schema(path)
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { connection in
            let added = [
                "chains": ["publishedEntitlements", "publishedDetails", "deniedAt", "deniedBecause"],
                "customers": ["grants"],
                "statements": ["originalApplicationVersion", "originalPlatform", "receiptType"],
                "residue": ["originalApplicationVersion", "originalPlatform", "receiptType"],
            ]
            for (table, columns) in added {
                for column in columns { try connection.execute(sql: "ALTER TABLE \(table) DROP COLUMN \(column)") }
            }
            try connection.execute(
                sql: "UPDATE grdb_migrations SET identifier = '025 tables' WHERE identifier = '026 tables'")
        }
        try queue.close()
        try SQLiteLedgerStorage(path: path).close()
        #expect(try Self.schema(path) == new)
        #expect(try Self.steps(path) == ["016 tables", "026 tables"])
    }

    /// The version before knows a ledger by the name of one of its own steps, and a newer version by a name with a
    /// higher number than all of them.
    @Test(arguments: [false, true])
    func `a file is known to the version before as one of a newer version`(isNew: Bool) throws {
        let path = folder.path(isNew ? "new" : "ledger.sqlite")
        let known = try Self.steps(folder.path())
        try SQLiteLedgerStorage(path: path).close()
        let steps = try Self.steps(path)
        #expect(!Set(steps).isDisjoint(with: known))
        #expect(try #require(steps.last) > #require(known.last))
    }

    @Test(arguments: [
        ("DELETE FROM grdb_migrations WHERE identifier > '020'", "development version"),
        ("INSERT INTO grdb_migrations VALUES ('024 another')", "development version"),
        ("DELETE FROM grdb_migrations; INSERT INTO grdb_migrations VALUES ('001 evidence')", "development version"),
        ("INSERT INTO grdb_migrations VALUES ('999 from the future')", "newer version"),
        (
            "DELETE FROM grdb_migrations WHERE identifier > '017'; INSERT INTO grdb_migrations VALUES ('998 tables')",
            "newer version"
        ),
    ])
    func `a file of another version is refused, and stays unchanged`(sql: String, reason: String) throws {
        try change(sql)
        let before = try bytes()
        let error = #expect(throws: LedgerStorageError.self) { try SQLiteLedgerStorage(path: folder.path()) }
        #expect(error?.code == .damaged && error?.message.contains(reason) == true)
        #expect(try bytes() == before)
    }

    @Test func `half a copy of an older version is refused and stays unchanged, and its copy goes on`() async throws {
        try change("INSERT INTO unfinishedCopy (id, source, beganAt) VALUES (1, 'sqlite:\"a\"', 7)")
        let before = try bytes()
        for open in [
            { _ = try SQLiteLedgerStorage(path: folder.path()) },
            { _ = try SQLiteLedgerStorage(path: folder.path(), isServed: true) },
            { _ = try SQLiteLedgerBackup.copy(folder.path(), to: folder.path("backup")) },
        ] as [() throws -> Void] {
            let error = #expect(throws: LedgerStorageError.self) { try open() }
            #expect(error?.code == .unfinishedCopy)
        }
        #expect(try bytes() == before)
        let note = UnfinishedCopy(source: "sqlite:\"a\"", beganAt: Timestamp(milliseconds: 7))
        let storage = try SQLiteLedgerStorage(path: folder.path(), continuesCopy: true)
        #expect(try await storage.unfinishedCopy() == note)
        try storage.close()
    }

    /// The step's note is the last write of the upgrade.
    @Test func `an upgrade that ends before its commit leaves the old ledger whole`() async throws {
        let (steps, schema) = (try Self.steps(folder.path()), try Self.schema(folder.path()))
        let trigger = "CREATE TRIGGER stop BEFORE INSERT ON grdb_migrations BEGIN SELECT RAISE(ABORT, 'stopped'); END"
        try change(trigger)
        #expect(throws: LedgerStorageError.self) { try SQLiteLedgerStorage(path: folder.path()) }
        try change("DROP TRIGGER stop")
        #expect(try Self.steps(folder.path()) == steps)
        #expect(try Self.schema(folder.path()) == schema)
        #expect(try await SQLiteLedgerStorage(path: folder.path()).faults() == [])
    }

    @Test func `a ledger that is served is not upgraded by a second server`() throws {
        let steps = try Self.steps(folder.path())
        let lock = try ServerLock(folder.path())
        let error = #expect(throws: LedgerStorageError.self) {
            try SQLiteLedgerStorage(path: folder.path(), isServed: true)
        }
        #expect(error?.message.contains("Another server uses this ledger") == true)
        #expect(try Self.steps(folder.path()) == steps)
        lock.release()
        try SQLiteLedgerStorage(path: folder.path(), isServed: true).close()
        #expect(try Self.steps(folder.path()) != steps)
    }

    @Test func `a backup of an old file is upgraded when it is opened`() async throws {
        let path = folder.path("copy")
        #expect(FileManager.default.createFile(atPath: path, contents: nil))
        let documents = try SQLiteLedgerBackup.copy(folder.path(), to: path)
        #expect(try SQLiteLedgerBackup.faults(path, documents: documents) == [])
        #expect(try Self.steps(path) == Self.steps(folder.path()))
        #expect(try await SQLiteLedgerStorage(path: path).faults() == [])
    }

    @Test func `numbers of customers who were deleted before the upgrade are not used again`() async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        let last = try await storage.number("SELECT seq FROM sqlite_sequence WHERE name = 'customers'")
        #expect(try await storage.number("SELECT max(number) FROM customers") < last)
        let id = CustomerID("new", of: "com.example.notes")
        let customer = try await storage.commit(LedgerQuery([.customerID(id)])) {
            .commit(LedgerChanges(), $0.newNumbers[id])
        }
        #expect(customer == Int64(last) + 1)
    }
}

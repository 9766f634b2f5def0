// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import GRDB
import LedgerSQLite
import PurchaseLedger
import TestData
import Testing

/// Tests that a ledger says so if its log was damaged after the process that wrote it ended.
@Suite struct DamagedLogTests {
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
    }

    private func bytes(_ name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: URL(fileURLWithPath: folder.path(name))))
    }

    private func exists(_ name: String) -> Bool { FileManager.default.fileExists(atPath: folder.path(name)) }

    /// A ledger as a killed process leaves it: most of its documents are in the log.
    private func killed(_ name: String, documents: Int = 20) async throws -> String {
        let storage = try SQLiteLedgerStorage(path: folder.path("running"))
        // A reader that keeps the log from being brought into the file.
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let reader = try DatabaseQueue(path: folder.path("running"), configuration: configuration)
        try reader.inDatabase { try $0.execute(sql: "BEGIN; SELECT count(*) FROM sqlite_schema") }
        for number in 0..<documents { try await storage.store(.unverified(Array("\(number)".utf8))) }
        for ending in ["", "-wal"] {
            try FileManager.default.copyItem(
                atPath: folder.path("running" + ending), toPath: folder.path(name + ending))
        }
        try reader.inDatabase { try $0.execute(sql: "COMMIT") }
        try reader.close()
        try storage.close()
        return folder.path(name)
    }

    /// Flips a bit in a page behind the middle of the log, where the tables are complete.
    private func damageLog(_ name: String) throws {
        var log = try bytes(name + "-wal")
        log[(log.count - 32) / 4120 * 3 / 4 * 4120 + 32 + 2000] ^= 4
        try Data(log).write(to: URL(fileURLWithPath: folder.path(name + "-wal")))
    }

    @Test func `a ledger with a whole log has no concern, and no copy of it is made`() async throws {
        let storage = try SQLiteLedgerStorage(path: try await killed("whole"), isServed: true)
        #expect(try await storage.texts().count == 20)
        #expect(storage.condition.concern == nil)
        #expect(try await storage.report().notes == [])
        #expect(try await storage.faults() == [])
        #expect(!exists("whole-wal-damaged-1"))
        try storage.close()
    }

    @Test func `a damaged log is copied, and is a concern and a fault until the copy is moved away`() async throws {
        let path = try await killed("damaged")
        try damageLog("damaged")
        let log = try bytes("damaged-wal")
        let reading = try SQLiteLedgerStorage(reading: path)
        #expect(reading.condition.concern?.contains("is damaged in frame") == true)
        #expect(try await reading.faults().count == 1)
        try reading.close()
        #expect(try bytes("damaged-wal") == log && !exists("damaged-wal-damaged-1"))

        for start in 0..<3 {
            let storage = try SQLiteLedgerStorage(path: path, isServed: true)
            #expect(try await storage.texts().count < 20 + start, "nothing was lost: the test is wrong")
            try await storage.store(.unverified(Array("after \(start)".utf8)))
            #expect(storage.condition.concern?.contains("damaged-wal-damaged-1") == true, "start \(start)")
            #expect(try await storage.faults().count == 1)
            try storage.close()
        }
        #expect(try bytes("damaged-wal-damaged-1") == log && !exists("damaged-wal-damaged-2"))
        let mode = try FileManager.default.attributesOfItem(atPath: path + "-wal-damaged-1")[.posixPermissions] as? Int
        #expect(mode == 0o600)

        try FileManager.default.moveItem(atPath: path + "-wal-damaged-1", toPath: folder.path("seen"))
        let storage = try SQLiteLedgerStorage(path: path)
        #expect(try await storage.faults() == [] && storage.condition.concern == nil)
        try storage.close()
    }

    enum Opening: CaseIterable { case reading, working, serving }

    private static func open(_ path: String, _ opening: Opening) throws -> SQLiteLedgerStorage {
        switch opening {
        case .reading: try SQLiteLedgerStorage(reading: path)
        case .working: try SQLiteLedgerStorage(path: path, createIfMissing: false, upgrades: false)
        case .serving: try SQLiteLedgerStorage(path: path, isServed: true)
        }
    }

    /// The log's header, and its first frame. `QUITTANCE_SOAK` damages each of these bytes.
    @Test(arguments: Opening.allCases)
    func `a log damaged in any of its first bytes is kept and told, whoever opens the ledger first and next`(
        first: Opening
    ) async throws {
        let path = try await killed("first")
        let (file, whole) = (try bytes("first"), try bytes("first-wal"))
        let positions = Array(0..<4096).filter { Seeds.isSoak || $0 < 56 && $0 % 5 == 0 || $0 % 811 == 0 }
        for position in positions {
            for ending in ["-shm", "-wal-damaged-1"] { unlink(path + ending) }
            var log = whole
            log[position] ^= 1 << UInt8(position % 8)
            try Data(file).write(to: URL(fileURLWithPath: path))
            try Data(log).write(to: URL(fileURLWithPath: path + "-wal"))
            for (turn, opening) in [first, first, .serving].enumerated() {
                let storage = try Self.open(path, opening)
                #expect(storage.condition.concern != nil, "byte \(position), opening \(turn)")
                try storage.close()
                let copy = exists("first-wal-damaged-1") ? "first-wal-damaged-1" : "first-wal"
                #expect(try bytes(copy) == log, "byte \(position), opening \(turn)")
            }
            #expect(exists("first-wal-damaged-1"))
        }
    }

    @Test func `a few damaged logs are kept, the first ones`() async throws {
        let path = try await killed("often")
        try damageLog("often")
        let log = try bytes("often-wal")
        for name in 1...3 { try Data([UInt8(name)]).write(to: URL(fileURLWithPath: "\(path)-wal-damaged-\(name)")) }
        try FileManager.default.removeItem(atPath: path + "-wal-damaged-3")
        try SQLiteLedgerStorage(path: path).close()
        #expect(try bytes("often-wal-damaged-3") == log)
        try Data(log).write(to: URL(fileURLWithPath: path + "-wal"))
        try SQLiteLedgerStorage(path: path).close()
        #expect(try bytes("often-wal-damaged-1") == [1] && !exists("often-wal-damaged-4"))
    }

    @Test func `a ledger whose damaged log cannot be copied is not opened, and its log stays as it is`() async throws {
        let path = try await killed("full")
        try damageLog("full")
        let log = try bytes("full-wal")
        // A folder has the name of the copy that is being written.
        let taken = path + "-wal-damaged-1.partial"
        try FileManager.default.createDirectory(atPath: taken, withIntermediateDirectories: true)
        #expect(throws: LedgerStorageError.self) { try SQLiteLedgerStorage(path: path, isServed: true) }
        #expect(try bytes("full-wal") == log)
        try FileManager.default.removeItem(atPath: taken)
        try SQLiteLedgerStorage(path: path, isServed: true).close()
        #expect(try bytes("full-wal-damaged-1") == log)
    }

    @Test func `a log that ends within a transaction is no concern`() async throws {
        let path = try await killed("short")
        let log = try bytes("short-wal")
        try Data(log.dropLast(4120)).write(to: URL(fileURLWithPath: path + "-wal"))
        let storage = try SQLiteLedgerStorage(path: path, isServed: true)
        #expect(storage.condition.concern == nil)
        #expect(try await storage.report().notes.count == 1)
        #expect(try await storage.faults() == [])
        #expect(try await storage.texts().count == 19)
        try storage.close()
    }

    @Test func `the log is brought into the file when nobody writes, while reads go on`() async throws {
        let path = folder.path("idle")
        let storage = try SQLiteLedgerStorage(path: path)
        try await storage.store(.unverified(Array("a name".utf8)))
        for _ in 0..<6000 where try bytes("idle-wal") != [] {
            _ = try await storage.texts()
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(try bytes("idle-wal") == [])
        try await storage.store(.unverified(Array("another".utf8)))
        #expect(try await storage.texts() == ["a name", "another"])
        try storage.close()
    }
}

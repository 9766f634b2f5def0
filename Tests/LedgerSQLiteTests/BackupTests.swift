// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import LedgerSQLite
import PurchaseLedger
import Synchronization
import TestData
import Testing

/// Tests copies of a ledger, made while the ledger is written or after it was damaged.
@Suite struct BackupTests {
    private static let now = Timestamp(milliseconds: 1_750_000_000_000)

    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
    }

    /// The number of commits of a writer, and whether it has ended or must end.
    private final class Writer: Sendable {
        private let state = Mutex((committed: 0, isDone: false))
        var committed: Int {
            get { state.withLock { $0.committed } }
            set { state.withLock { $0.committed = newValue } }
        }
        var isDone: Bool {
            get { state.withLock { $0.isDone } }
            set { state.withLock { $0.isDone = newValue } }
        }
    }

    private func empty(_ name: String) throws -> String {
        try Data().write(to: URL(fileURLWithPath: folder.path(name)))
        return folder.path(name)
    }

    private static func documents(of path: String) async throws -> [[UInt8]] {
        let copy = try SQLiteLedgerStorage(path: path, createIfMissing: false)
        defer { try? copy.close() }
        #expect(try await copy.faults() == [])
        return try await copy.scanned().documents.map(\.document)
    }

    @Test(.takesLong) func `a copy that is made during writes has all earlier commits, and only whole ones`()
        async throws
    {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        // Large enough for a copy in several steps.
        let filler = [UInt8](repeating: 7, count: 200_000)
        try await storage.store((0..<120).map { .unverified(Array("\($0)".utf8) + filler) })
        let writer = Writer()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                var number = 0
                // The loops that wait for this task must end even if it throws.
                defer { writer.isDone = true }
                while !writer.isDone, !Task.isCancelled {
                    let first = number
                    // A copy must have both documents or neither.
                    try await storage.store(
                        (0..<2).map { .unverified(Array("\(first) \($0)".utf8), about: "\(first)") })
                    number += 1
                    writer.committed = number
                }
            }
            for copy in 0..<2 {
                while writer.committed < 50 * (copy + 1), !writer.isDone { try await Task.sleep(for: .milliseconds(1)) }
                let before = writer.committed
                let path = try empty("copy\(copy)")
                var steps = 0
                let count = try SQLiteLedgerBackup.copy(folder.path(), to: path, at: Self.now) { _, _ in
                    // Waits for a write after each step. The copy must not begin again because of it.
                    let reached = writer.committed
                    while writer.committed == reached, !writer.isDone { Thread.sleep(forTimeInterval: 0.001) }
                    steps += 1
                    #expect(steps < 100)
                }
                #expect(steps > 1)
                #expect(try SQLiteLedgerBackup.faults(path, documents: count) == [])
                let found = try await Self.documents(of: path)
                #expect(found.count == count)
                let small = found.dropFirst(120).map { String(decoding: $0, as: UTF8.self) }
                #expect(small.count >= 2 * before && small.count % 2 == 0)
                #expect(small == (0..<small.count).map { "\($0 / 2) \($0 % 2)" })
            }
            writer.isDone = true
            try await group.waitForAll()
        }
    }

    @Test func `a copy is one file, and making it does not change the ledger`() async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        try await storage.store(.unverified([1]))
        let log = try Data(contentsOf: URL(fileURLWithPath: folder.path() + "-wal"))
        let path = try empty("copy")
        #expect(try SQLiteLedgerBackup.copy(folder.path(), to: path, at: Self.now) == 1)
        #expect(try SQLiteLedgerBackup.faults(path, documents: 1) == [])
        #expect(try SQLiteLedgerBackup.faults(path, documents: 2) == ["The number of documents is 1 instead of 2"])
        #expect(try Data(contentsOf: URL(fileURLWithPath: folder.path() + "-wal")) == log)
        // In bytes 18 and 19 of the header, 1 means a file without a write-ahead log, and 2 a file with one.
        #expect(Array(try Data(contentsOf: URL(fileURLWithPath: path)))[18..<20] == [1, 1])
        for ending in ["-wal", "-shm", "-journal"] { #expect(!FileManager.default.fileExists(atPath: path + ending)) }
        #expect(try await Self.documents(of: path) == [[1]])
    }

    @Test func `a restored backup tells its followers once and as of the restore, also what was told before`()
        async throws
    {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        try await storage.store([.unverified([1])])
        let times = (0..<4).map { Self.now.advanced(by: .seconds($0)) }
        let backup = try empty("backup")
        _ = try SQLiteLedgerBackup.copy(folder.path(), to: backup, at: times[0])
        func events(_ name: String, at now: Timestamp) async throws -> [LedgerEvent] {
            _ = try SQLiteLedgerBackup.copy(backup, to: empty(name), at: now, isRestore: true)
            let restored = try SQLiteLedgerStorage(path: folder.path(name), createIfMissing: false)
            defer { try? restored.close() }
            return try await restored.events(of: AppStore.bundleId, after: nil, limit: 9).events
        }
        let first = try await events("first", at: times[1])
        #expect(first.map(\.kind) == [Open(.ledgerRestored)] && first.map(\.recordedAt) == [times[1]])
        #expect(first.map(\.content?.effectiveAt) == [times[1]])
        #expect(try await events("second", at: times[1]).first?.cursor != first.first?.cursor)
        // A backup that was put in place by hand, and used.
        let used = try SQLiteLedgerStorage(path: backup, createIfMissing: false)
        try await used.commit(LedgerQuery()) { [time = times[2]] _ in
            var changes = LedgerChanges()
            changes.events = [LedgerEvent(.purchased, in: AppStore.scope, at: time)]
            return .commit(changes, ())
        }
        try used.close()
        let third = try await events("third", at: times[3])
        #expect(third.map(\.kind) == [Open(.ledgerRestored), Open(.purchased), Open(.ledgerRestored)])
        #expect(third.map(\.recordedAt) == [times[0], times[2], times[3]])
    }

    @Test func `a file that is no ledger or of a newer version is not copied, and damage is found in the copy`()
        async throws
    {
        let garbage = folder.path("garbage")
        try Data(repeating: 7, count: 10_000).write(to: URL(fileURLWithPath: garbage))
        let storage = try SQLiteLedgerStorage(path: folder.path())
        try await storage.store((UInt8(0)..<200).map { .unverified([UInt8](repeating: $0, count: 900)) })
        try storage.close()
        var bytes = Array(try Data(contentsOf: URL(fileURLWithPath: folder.path())))
        bytes.replaceSubrange(20 * 4096..<24 * 4096, with: [UInt8](repeating: 0, count: 4 * 4096))
        let damaged = folder.path("damaged")
        try Data(bytes).write(to: URL(fileURLWithPath: damaged))
        for source in [garbage, damaged] {
            let faults: [String]
            do {
                let path = try empty("copy")
                let documents = try SQLiteLedgerBackup.copy(source, to: path, at: Self.now)
                faults = try SQLiteLedgerBackup.faults(path, documents: documents)
            } catch let error as LedgerStorageError {
                faults = ["\(error)"]
            }
            #expect(faults != [], "\(source)")
        }
        let newer = try SQLiteLedgerStorage(path: folder.path())
        try await newer.execute("PRAGMA user_version = 999")
        try newer.close()
        let path = try empty("copy2")
        #expect(throws: LedgerStorageError.self) { try SQLiteLedgerBackup.copy(folder.path(), to: path, at: Self.now) }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import GRDB
import PurchaseLedger
import TestData
import Testing

@testable import LedgerSQLite

/// Tests how a ledger gets its tables, with steps that only this test has.
@Suite struct SchemaStepTests {
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
    }

    /// If this test fails, the tables or the stored phrases have changed. Until the first release, raise the number in
    /// ``Schema/steps``, and record the new number and digest here. Afterwards undo the change, and add a step instead.
    @Test func `the tables are those for which the baseline has its number`() {
        let phrases = StoredBody.phrases.map { "\($0.byte)\($0.text)" }
        let text = (Schema.tables + phrases).joined(separator: "\n")
        let digest = DocumentDigest(Array(text.utf8)).description.prefix(16)
        #expect("\(Schema.steps.baseline) \(digest)" == "33 ee14080701b2ccb8")
    }

    private static let later = [
        SchemaStep("first", ["CREATE TABLE later (id INTEGER PRIMARY KEY)", "INSERT INTO later VALUES (1)"]),
        SchemaStep("second", ["ALTER TABLE later ADD COLUMN name TEXT", "UPDATE later SET name = 'a'"]),
    ]

    private static func steps(_ later: [SchemaStep]) -> SchemaSteps {
        SchemaSteps(baseline: Schema.steps.baseline, Schema.steps.all + later)
    }

    private func migrate(_ later: [SchemaStep], _ name: String = "ledger.sqlite") throws {
        let queue = try DatabaseQueue(path: folder.path(name))
        defer { try? queue.close() }
        try queue.writeWithoutTransaction { try Schema.migrate($0, Self.steps(later)) }
    }

    private func text(_ sql: String, _ name: String = "ledger.sqlite") throws -> String? {
        try DatabaseQueue(path: folder.path(name)).read { try String.fetchOne($0, sql: sql) }
    }

    private func version(_ name: String = "ledger.sqlite") throws -> Int? {
        try text("PRAGMA user_version", name).flatMap { Int($0) }
    }

    @Test func `a ledger takes the steps that it lacks in their order, and a new one takes all`() throws {
        try SQLiteLedgerStorage(path: folder.path()).close()
        #expect(try version() == Schema.steps.baseline)
        try migrate(Array(Self.later[..<1]))
        #expect(try version() == Schema.steps.baseline + 1)
        try migrate(Self.later)
        try migrate(Self.later, "new")
        for name in ["ledger.sqlite", "new"] {
            #expect(try version(name) == Schema.steps.baseline + 2)
            #expect(try text("SELECT group_concat(id || name) FROM later", name) == "1a")
        }
        try migrate(Self.later)
        #expect(try text("SELECT group_concat(id || name) FROM later") == "1a")
    }

    @Test func `a step that fails leaves the ledger as the step before left it, and is named`() throws {
        try SQLiteLedgerStorage(path: folder.path()).close()
        let broken = SchemaStep("broken", ["UPDATE later SET name = 'b'", "UPDATE nothing SET id = 1"])
        let error = #expect(throws: LedgerStorageError.self) { try migrate(Self.later + [broken]) }
        #expect(error?.message.hasPrefix("The step broken of the ledger's tables failed: SQLite 1: ") == true)
        #expect(try version() == Schema.steps.baseline + 2)
        #expect(try text("SELECT name FROM later") == "a")
    }

    @Test func `software without a step refuses a ledger that has taken it, and changes no file`() async throws {
        let path = folder.path()
        try SQLiteLedgerStorage(path: path).close()
        try migrate(Array(Self.later[..<1]))
        let before = try folder.contents()
        for error in refusals(of: path, copyingTo: folder.path("copy")) {
            #expect(error?.code == .damaged && error?.message.contains("a newer version of this software") == true)
        }
        #expect(try folder.contents() == before)
    }

    /// The later step is in the log, and the header of the file does not say it.
    @Test func `a step is known from the log too`() async throws {
        let path = folder.path()
        let storage = try SQLiteLedgerStorage(path: folder.path("running"))
        try await storage.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        try await storage.execute("PRAGMA user_version = \(Schema.steps.version + 1)")
        for ending in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: folder.path("running" + ending), toPath: path + ending)
        }
        try storage.close()
        // The last look is at the header alone.
        for error in refusals(of: path, copyingTo: folder.path("copy")).dropLast() {
            #expect(error?.code == .damaged && error?.message.contains("a newer version of this software") == true)
        }
    }
}

/// The error of each way to open a file; `nil` if there is none.
func refusals(of path: String, copyingTo copy: String) -> [LedgerStorageError?] {
    let ways: [() throws -> Void] = [
        { try SQLiteLedgerStorage(path: path).close() },
        { try SQLiteLedgerStorage(path: path, isServed: true).close() },
        { try SQLiteLedgerStorage(path: path, createIfMissing: false, upgrades: false).close() },
        { try SQLiteLedgerStorage(path: path, isServed: true, continuesCopy: true).close() },
        { try SQLiteLedgerStorage(reading: path).close() },
        { _ = try SQLiteLedgerBackup.copy(path, to: copy, at: Timestamp(milliseconds: 0)) },
        { _ = try SQLiteLedgerStorage.loss(at: path) },
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

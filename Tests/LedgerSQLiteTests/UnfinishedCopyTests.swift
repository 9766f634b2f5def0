// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import LedgerSQLite
import PurchaseLedger
import TestData
import Testing

/// Tests that half a copy is no ledger.
@Suite struct UnfinishedCopyTests {
    private let folder: TemporaryFolder
    private let note = UnfinishedCopy(
        source: "sqlite:/ledgers/old.sqlite", beganAt: Timestamp(milliseconds: 1_790_000_000_000))

    init() throws {
        folder = try TemporaryFolder()
    }

    /// The error of each way to open a file without the permission to go on with a copy; `nil` if there is none.
    private func errors(of path: String) -> [LedgerStorageError?] {
        let ways: [() throws -> Void] = [
            { try SQLiteLedgerStorage(path: path).close() },
            { try SQLiteLedgerStorage(path: path, isServed: true).close() },
            { try SQLiteLedgerStorage(path: path, createIfMissing: false, upgrades: false).close() },
            { try SQLiteLedgerStorage(reading: path).close() },
            { _ = try SQLiteLedgerBackup.copy(path, to: folder.path("copy"), at: Timestamp(milliseconds: 0)) },
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

    @Test func `half a copy is refused however it is opened, and stays unchanged`() async throws {
        let path = folder.path()
        let target = try SQLiteLedgerStorage(path: path, continuesCopy: true)
        try await target.note(note)
        try target.close()
        let before = try Data(contentsOf: URL(fileURLWithPath: path))
        for error in errors(of: path) {
            #expect(error?.code == .unfinishedCopy && error?.isPassing == false)
            #expect(error?.message.contains("half a copy of sqlite:/ledgers/old.sqlite, begun at 2026-09-21") == true)
            #expect(error?.message.contains("run the same quittance copy again") == true)
        }
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == before)

        let again = try SQLiteLedgerStorage(path: path, continuesCopy: true)
        #expect(try await again.unfinishedCopy() == note)
        try await again.note(nil)
        try again.close()
        #expect(errors(of: path).allSatisfy { $0 == nil })
    }

}

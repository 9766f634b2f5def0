// SPDX-License-Identifier: Apache-2.0

import LedgerSQLite
import PurchaseLedgerTesting
import Synchronization
import TestData
import Testing

/// Tests the SQLite storage against the contract of all storages.
@Suite struct ContractTests {
    @Test func `a ledger in a file that is opened twice meets the contract`() async throws {
        let folder = try TemporaryFolder()
        let names = Names()
        try await LedgerStorageContract {
            let path = folder.path(names.next())
            return (try SQLiteLedgerStorage(path: path), try SQLiteLedgerStorage(path: path))
        }.run()
    }

    @Test func `a ledger in memory meets the contract`() async throws {
        try await LedgerStorageContract {
            let storage = try SQLiteLedgerStorage.inMemory()
            return (storage, storage)
        }.run()
    }
}

/// Distinct file names.
private final class Names: Sendable {
    private let count = Mutex(0)

    func next() -> String {
        count.withLock {
            $0 += 1
            return "\($0).sqlite"
        }
    }
}

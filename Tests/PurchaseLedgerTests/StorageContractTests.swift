// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import PurchaseLedgerTesting
import Testing

/// Tests the storages that need no database against the contract.
@Suite struct StorageContractTests {
    @Test func `the storage in memory meets the contract`() async throws {
        try await LedgerStorageContract {
            let storage = MemoryLedgerStorage()
            return (storage, storage)
        }.run()
    }

    @Test func `a storage that runs decisions twice meets the contract`() async throws {
        try await LedgerStorageContract {
            let storage = MemoryLedgerStorage()
            return (UnsteadyStorage(around: storage), UnsteadyStorage(around: storage))
        }.run()
    }
}

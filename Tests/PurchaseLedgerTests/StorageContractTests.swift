// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import PurchaseLedgerTesting
import Testing

@Suite struct StorageContractTests {
    @Test func `the storage in memory meets the contract`() async throws {
        try await LedgerStorageContract {
            let storage = MemoryLedgerStorage()
            return (storage, storage)
        }.run()
    }

    @Test func `a storage that runs decisions again meets the contract`() async throws {
        try await LedgerStorageContract {
            let storage = MemoryLedgerStorage()
            return (UnsteadyStorage(around: storage), UnsteadyStorage(around: storage))
        }.run()
    }
}

// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import Testing

@Suite struct StorageContractTests {
    @Test func `the storage in memory keeps the promise`() async throws {
        try await LedgerStorageContract { MemoryLedgerStorage() }.run()
    }
}

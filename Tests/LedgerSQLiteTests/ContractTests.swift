// SPDX-License-Identifier: Apache-2.0

import LedgerSQLite
import PurchaseLedger
import Testing

@Suite struct ContractTests {
    @Test func `a ledger in a file keeps the promise`() async throws {
        let folder = try TemporaryFolder()
        let names = Names()
        try await LedgerStorageContract { try SQLiteLedgerStorage(path: folder.path(names.next())) }.run()
    }

    @Test func `a ledger in memory keeps the promise`() async throws {
        try await LedgerStorageContract { try SQLiteLedgerStorage.inMemory() }.run()
    }
}

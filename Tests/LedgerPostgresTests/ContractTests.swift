// SPDX-License-Identifier: Apache-2.0

import LedgerPostgres
import PurchaseLedger
import PurchaseLedgerTesting
import TestData
import TestPostgres
import Testing

/// Tests the PostgreSQL storage against the contract of all storages, on a real server.
@Suite(.needsPostgres) struct PostgresContractTests {
    @Test(.takesLong) func `two servers on one database meet the contract`() async throws {
        try await LedgerStorageContract {
            let database = try TestPostgres.database()
            return (try await database.storage(), try await database.storage())
        }.run()
    }
}

// SPDX-License-Identifier: Apache-2.0

import LedgerPostgres
import PurchaseLedger
import TestData
import TestPostgres
import TestWorld
import Testing

/// Tests the records of webhooks in a database.
@Suite(.needsPostgres) struct WebhookStoryTests {
    @Test(.takesLong) func `webhooks have the same course in a database as in memory`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        let expected = try await WebhookStory.course(in: MemoryLedgerStorage())
        #expect(try await WebhookStory.course(in: storage) == expected)
        #expect(try await storage.faults() == [])
        storage.close()
    }
}

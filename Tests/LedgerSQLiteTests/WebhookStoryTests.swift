// SPDX-License-Identifier: Apache-2.0

import LedgerSQLite
import PurchaseLedger
import TestData
import TestWorld
import Testing

/// Tests the records of webhooks in a file.
@Suite struct WebhookStoryTests {
    @Test func `webhooks have the same course in a file as in memory`() async throws {
        let folder = try TemporaryFolder()
        let file = try SQLiteLedgerStorage(path: folder.path())
        let expected = try await WebhookStory.course(in: MemoryLedgerStorage())
        #expect(expected.count > 50)
        #expect(try await WebhookStory.course(in: file) == expected)
        #expect(try await file.faults() == [])
        try file.close()
    }
}

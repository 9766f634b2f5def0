// SPDX-License-Identifier: Apache-2.0

import LedgerSQLite
import TestData
import TestWorld
import Testing

/// Tests the audit list in a file.
@Suite struct AuditStoryTests {
    @Test(arguments: Seeds.first(2)) func `each change of a day has one entry in a file`(seed: UInt64) async throws {
        let folder = try TemporaryFolder()
        let file = try SQLiteLedgerStorage(path: folder.path())
        #expect(try await AuditStory.told(in: file, seed: seed).faults == [])
        #expect(try await file.faults() == [])
        try file.close()
    }
}

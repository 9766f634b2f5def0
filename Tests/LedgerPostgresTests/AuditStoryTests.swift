// SPDX-License-Identifier: Apache-2.0

import LedgerPostgres
import TestData
import TestPostgres
import TestWorld
import Testing

/// Tests the audit list in a database.
@Suite(.needsPostgres) struct AuditStoryTests {
    @Test(.takesLong) func `each change of a day has one entry in a database`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        #expect(try await AuditStory.told(in: storage, seed: Seeds.first(1)[0]).faults == [])
        #expect(try await storage.faults() == [])
        storage.close()
    }
}

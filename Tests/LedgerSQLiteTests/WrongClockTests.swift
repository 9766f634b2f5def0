// SPDX-License-Identifier: Apache-2.0

import LedgerSQLite
import PurchaseLedger
import TestData
import TestWorld
import Testing

/// Tests that a clock that was ahead for a moment undoes itself, over restarts of the server.
@Suite struct WrongClockTests {
    @Test(arguments: [Duration.seconds(8 * 3600), .seconds(40 * 86_400)])
    func `after restarts events and answers are those of a clock that was right all the time`(
        ahead: Duration
    ) async throws {
        let (folder, scenario) = (try TemporaryFolder(), try WrongClock())
        let memory = MemoryLedgerStorage()
        let expected = try await scenario.outcome(ahead: .zero) { memory }
        var open: SQLiteLedgerStorage?
        let found = try await scenario.outcome(ahead: ahead) {
            try open?.close()
            let storage = try SQLiteLedgerStorage(path: folder.path())
            open = storage
            return storage
        }
        try open?.close()
        #expect(found == expected)
    }
}

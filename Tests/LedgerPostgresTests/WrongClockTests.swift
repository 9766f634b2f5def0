// SPDX-License-Identifier: Apache-2.0

import LedgerPostgres
import PurchaseLedger
import TestData
import TestPostgres
import TestWorld
import Testing

/// Tests that a clock that was ahead for a moment undoes itself, also if another server's was.
@Suite(.needsPostgres) struct WrongClockTests {
    @Test(.takesLong, arguments: [Duration.seconds(8 * 3600), .seconds(40 * 86_400)])
    func `another server corrects what a server published whose clock is ahead`(ahead: Duration) async throws {
        let (database, scenario, memory) = (try TestPostgres.database(), try WrongClock(), MemoryLedgerStorage())
        let expected = try await scenario.outcome(ahead: .zero) { memory }
        var servers: [PostgresLedgerStorage] = []
        let found = try await scenario.outcome(ahead: ahead) {
            let server = try await database.storage()
            servers.append(server)
            return server
        }
        for server in servers { server.close() }
        #expect(found == expected)
    }
}

// SPDX-License-Identifier: Apache-2.0

import LedgerPostgres
import LedgerSimulation
import PurchaseLedger
import PurchaseLedgerTesting
import Synchronization
import TestData
import TestPostgres
import Testing

/// Customers live while everything fails that can fail, on a database that three servers use in turn.
@Suite(.needsPostgres) struct PostgresSimulationTests {
    @Test(.takesLong, arguments: Seeds.first(1, soak: 10))
    func `three servers that take turns answer as one ledger in memory does`(seed: UInt64) async throws {
        let plan = SimulationPlan(seed: seed, days: Seeds.isSoak ? 60 : 10, customers: 4)
        let database = try TestPostgres.database()
        let servers = [try await database.storage(), try await database.storage(), try await database.storage()]
        var simulation = try Simulation(plan, on: StorageTakingTurns(servers))
        let report = try await simulation.run()
        for server in servers { server.close() }
        #expect(report.comparisons > 25, "\(report)")
        #expect(report.stops > 5, "\(report)")
        var inMemory = try Simulation(plan)
        #expect(try await inMemory.run() == report)
        print("Seed \(seed), three servers on PostgreSQL: \(report)")
    }
}

/// Forwards each call to the next of several handles on one database.
private final class StorageTakingTurns: ForwardingStorage {
    private let servers: [any LedgerStorage]
    private let calls = Atomic(0)

    init(_ servers: [any LedgerStorage]) {
        self.servers = servers
    }

    var inner: any LedgerStorage { servers[calls.add(1, ordering: .relaxed).oldValue % servers.count] }
}

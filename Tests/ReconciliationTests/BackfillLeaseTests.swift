// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Reconciliation
import Synchronization
import Testing

/// That one backfill of an app runs at a time, and a killed one keeps nobody away for long.
@Suite struct BackfillLeaseTests {
    /// A ledger, and a clock that moves while somebody waits.
    private final class World: Sendable {
        let ledger = Ledger(storage: MemoryLedgerStorage())
        private let seconds = Mutex<Int64>(0)

        var elapsed: Int64 { seconds.withLock { $0 } }
        @Sendable func now() -> Timestamp { Timestamp(milliseconds: 1_900_000_000_000 + elapsed * 1000) }
        func pass(_ duration: Duration) { seconds.withLock { $0 += duration.components.seconds } }

        /// - Parameter meanwhile: What others do in each second of a wait.
        func take(
            _ run: String, of bundleId: String = "com.example", behind: Duration = .zero,
            meanwhile: () async throws -> Void = {}
        ) async throws -> BackfillLease {
            try await BackfillLease(
                of: bundleId, in: ledger, run: run, wall: { self.now().advanced(by: .zero - behind) },
                sleep: { duration in
                    self.pass(duration)
                    try await meanwhile()
                })
        }

        func jobs() async throws -> [Job] { try await ledger.jobs().items }
    }

    @Test func `a second backfill is refused as soon as the first prolongs its lease, and says since when`()
        async throws
    {
        let world = World()
        let first = try await world.take("a")
        let start = world.now()
        world.pass(.seconds(60))
        let error = await #expect(throws: OtherBackfill.self) {
            _ = try await world.take("b") { if world.elapsed == 63 { try await first.prolong() } }
        }
        #expect(world.elapsed == 63)
        #expect(error?.description.contains("since \(start.iso8601)") == true, "\(error?.description ?? "")")
        #expect(!first.isLost)
    }

    @Test func `after a killed backfill the next waits some seconds, and after its lease not at all`() async throws {
        let world = World()
        let killed = try await world.take("a")
        let second = try await world.take("b")
        #expect(world.elapsed == 20)
        world.pass(.seconds(121))
        let third = try await world.take("c")
        #expect(world.elapsed == 141)
        try await killed.prolong()
        try await second.prolong()
        try await third.prolong()
        #expect(killed.isLost && second.isLost && !third.isLost)
        try await second.end()
        #expect(try await world.jobs().count == 1, "only the holder gives the lease back")
        try await third.end()
        #expect(try await world.jobs().isEmpty)
    }

    @Test func `a lease that ends during the wait is taken at once, and another app has its own`() async throws {
        let world = World()
        let first = try await world.take("a")
        _ = try await world.take("b", of: "com.other")
        #expect(world.elapsed == 0)
        let second = try await world.take("c") { if world.elapsed == 3 { try await first.end() } }
        #expect(world.elapsed == 3 && !second.isLost)
    }

    @Test func `a machine whose clock is a minute ahead takes no lease of a backfill that runs`() async throws {
        let world = World()
        let first = try await world.take("a", behind: .seconds(60))
        await #expect(throws: OtherBackfill.self) {
            _ = try await world.take("b") { if world.elapsed == 5 { try await first.prolong() } }
        }
    }

    @Test func `whoever keeps a lease prolongs it until it is lost or the task ends`() async throws {
        let world = World()
        let lease = try await world.take("a")
        var rounds = 0
        await lease.keep { duration in
            world.pass(duration)
            rounds += 1
            if rounds > 10 { throw CancellationError() }
        }
        #expect(try await world.jobs().first?.dueAt == world.now().advanced(by: .seconds(115)))
        let other = try await world.take("b")
        await lease.keep { world.pass($0) }
        #expect(lease.isLost && !other.isLost)
    }
}

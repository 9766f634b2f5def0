// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Logging
import PurchaseLedger
import PurchaseLedgerTesting
import PurchaseServer
import Synchronization
import Testing

/// Tests that a server that runs for long lets its storage prepare for the time that comes.
@Suite struct PreparationTests {
    private static let start = Timestamp(milliseconds: 1_800_000_000_000)

    /// Notes when it was to prepare, and has then something to tell.
    private final class PreparingStorage: ForwardingStorage {
        let inner: any LedgerStorage = MemoryLedgerStorage()
        let instants = Mutex<[Timestamp]>([])
        let onPreparation: @Sendable (Int) -> Void

        init(onPreparation: @escaping @Sendable (Int) -> Void) { self.onPreparation = onPreparation }

        func prepare(at now: Timestamp) async {
            onPreparation(
                instants.withLock { instants in
                    instants.append(now)
                    return instants.count
                })
        }

        var condition: StorageCondition {
            StorageCondition(concern: instants.withLock { $0.isEmpty ? nil : "A table is missing." })
        }
    }

    @Test func `the storage prepares at the start and each hour, and what it lacks is logged`() async throws {
        let (enough, done) = AsyncStream.makeStream(of: Void.self)
        let storage = PreparingStorage { if $0 == 25 { done.finish() } }
        let (clock, lines) = (VirtualClock(), LogLines())
        let housekeeping = Housekeeping(
            ledger: Ledger(storage: storage),
            now: { Self.start.advanced(by: clock.now.offset) }, clock: clock,
            logger: Logger(label: "test") { _ in lines })
        let running = Task { try await housekeeping.run() }
        for await _ in enough {}
        running.cancel()
        try await running.value
        let instants = storage.instants.withLock { $0 }
        #expect(instants.prefix(25) == (0..<25).map { Self.start.advanced(by: .seconds(3600) * $0) }[...])
        #expect(lines.text.count { $0.contains("The ledger needs attention") } == 1)
    }
}

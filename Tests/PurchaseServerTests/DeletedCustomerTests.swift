// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Logging
import PurchaseLedger
import PurchaseServer
import TestWorld
import Testing

/// Tests that a running server erases the ids of customers that were deleted 30 days ago.
@Suite struct DeletedCustomerTests {
    private static let scope = LedgerScope(bundleId: TestStore.bundleId, environment: .production)

    /// The number of records about deleted customers after a round of the housekeeping on a day.
    private static func records(in ledger: Ledger, _ storage: MemoryLedgerStorage, day: Double) async throws -> Int {
        let housekeeping = Housekeeping(
            ledger: ledger, now: { TestStore.day(day) }, clock: VirtualClock(cancelsSleepingTasks: true),
            logger: Logger(label: "test") { _ in LogLines() })
        let round = Task { try await housekeeping.run() }
        _ = await round.result
        return try await storage.records(RecordSelection(RecordKind(rawValue: "deletedCustomer")), limit: 9).count
    }

    @Test func `the ids of a deleted customer are erased after 30 days, whatever the retention of events`() async throws
    {
        let storage = MemoryLedgerStorage()
        let ledger = Ledger(storage: storage)
        for id in ["anna", "bert"] {
            _ = try await ledger.recordConsent(true, of: id, in: Self.scope, at: TestStore.day(0))
        }
        _ = try await ledger.delete("anna", in: Self.scope, at: TestStore.day(1))
        _ = try await ledger.delete("bert", in: Self.scope, at: TestStore.day(2))
        for (day, count) in [(30.99, 2), (31, 1), (31.5, 1), (32, 0)] as [(Double, Int)] {
            #expect(try await Self.records(in: ledger, storage, day: day) == count)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import PurchaseLedgerTesting
import TestWorld
import Testing

/// Tests the count of a product's subscribers, before a change for all of them.
@Suite struct SubscriberCountTests {
    /// A ledger with two active subscriptions, one of another product, one that has ended, and a family member's.
    private static func ledger() async throws -> Ledger {
        let signed = try SignedHistory()
        let ledger = Ledger(storage: MemoryLedgerStorage())
        let payloads = [
            TestStore.transaction("1"), TestStore.transaction("2"), TestStore.transaction("3", product: "year"),
            TestStore.transaction("4", until: 1),
            TestStore.transaction("5") { $0.inAppOwnershipType = Open(.familyShared) },
        ]
        for payload in payloads {
            var payload = payload
            payload.bundleId = Facts.scope.bundleId
            let evidence = try await signed.evidence(transaction: signed.sign(payload))
            _ = try await ledger.record([evidence], at: Facts.day(2))
        }
        return ledger
    }

    @Test func `only active subscriptions of the product that the customer bought count`() async throws {
        let count = try await Self.ledger().activeSubscriptions(of: "month", in: Facts.scope, at: Facts.day(2))
        #expect(count == 2)
    }

    /// A storage in which a chain cannot be read.
    private struct PartlyUnreadable: ForwardingStorage {
        var inner: any LedgerStorage

        func chains(
            _ selection: ChainSelection, after cursor: ScanCursor?, limit: Int
        ) async throws -> ScanPage<ChainKey> {
            var page = try await inner.chains(selection, after: cursor, limit: limit)
            page.damage.append("a chain")
            return page
        }
    }

    @Test func `a chain that cannot be read gives no count, because the count would be too low`() async throws {
        let storage = PartlyUnreadable(inner: try await Self.ledger().storage)
        await #expect(throws: LedgerStorageError.self) {
            try await Ledger(storage: storage).activeSubscriptions(of: "month", in: Facts.scope, at: Facts.day(2))
        }
    }
}

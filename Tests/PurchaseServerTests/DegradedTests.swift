// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Hummingbird
import HummingbirdTesting
import PurchaseLedger
import PurchaseLedgerTesting
import Testing

@testable import PurchaseServer

/// Tests a server with a ledger of which a part is away.
@Suite struct DegradedTests {
    private struct HalfStorage: ForwardingStorage {
        let inner: any LedgerStorage = MemoryLedgerStorage()
        var condition: StorageCondition { StorageCondition(concern: "1 of 2 nodes is away.", isDegraded: true) }

        func documents(
            _ selection: DocumentSelection, after cursor: ScanCursor?, limit: Int
        ) async throws -> ScanPage<StoredDocument> {
            throw LedgerStorageError(.unavailable, "a test")
        }
    }

    @Test func `it is degraded instead of unavailable, also after a commit to the missing part failed`() async throws {
        var world = try await LedgerRoutesTests.World()
        world.server = try world.server(keeping: Ledger(storage: HalfStorage()))
        world.server.ledger?.readiness.committed(LedgerStorageError(.full, "a test"))
        let (status, body) = try await world.send(.get, "/health/ready", key: nil)
        #expect(status == .ok && body["status"]?.string == "degraded")
        #expect(body["concern"]?.string == "1 of 2 nodes is away." && body["lastNotificationAccepted"] == .null)
    }
}

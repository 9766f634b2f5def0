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
        let server = try await LedgerRoutesTests.World().server(keeping: Ledger(storage: HalfStorage()))
        server.ledger?.readiness.committed(LedgerStorageError(.full, "a test"))
        try await checkedApplication(of: server).test(.router) { client in
            let response = try await client.execute(uri: "/health/ready", method: .get)
            #expect(response.status == .ok)
            let body = try JSONValue(parsing: response.body.readableBytesView)
            #expect(body["status"]?.string == "degraded")
            #expect(body["concern"]?.string == "1 of 2 nodes is away.")
            #expect(body["lastNotificationAccepted"] == .null)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import PurchaseServer
import Reconciliation
import Testing

/// The code in the page about Apple's servers.
@Suite struct APIArticles {
    @Test func `ask Apple's servers`() async throws {
        let start = Timestamp(milliseconds: 1_750_000_000_000)
        let authority = try StoreAuthority.fixture()
        let storeKey = try StoreKey(seed: 1)
        var store = AppStoreSimulator.SimulatedStore(
            World(seed: 1, catalogue: .example(bundleId: "com.example.notes", appAppleId: 7), now: start),
            WorldSigner(authority), storeKey)
        try store.world.addCustomer("anna")
        let transactionId = try #require(try store.world.buy("com.example.notes.pro.monthly", by: "anna"))
        let (keyId, issuerId, pem) = (storeKey.id, storeKey.issuer, storeKey.pem)
        let now: @Sendable () -> Timestamp = { start }
        let sleep: @Sendable (Duration) async throws -> Void = { _ in }
        let transport = SimulatedTransport(store, wall: now)
        let verifier = AppStoreVerifier(
            apps: .only([AppIdentity(bundleId: "com.example.notes", appAppleId: 7)]), environments: [.production],
            roots: try TrustRoots(reading: authority.roots[0]))
        var products: Set<String?> = []
        var revision: String?

        let key = try InAppPurchaseKey(id: keyId, issuer: issuerId, pem: pem)
        let client = AppStoreClient(
            bundleId: "com.example.notes", key: key, transport: transport, now: now, sleep: sleep,
            random: SystemRandomNumberGenerator())

        // Production first, and the sandbox if production does not know the transaction.
        let found = try await client.find(.subscriptionStatuses(transactionId))
        for try await page in client.pages(.transactionHistory(transactionId), in: found.environment) {
            for document in await verifier.checked(page, at: now()) {
                let transaction = try document.result.get()
                products.insert(transaction.payload.productId)
            }
            revision = page.revision
        }
        #expect(found.environment == .production)
        #expect(products == ["com.example.notes.pro.monthly"])
        #expect(revision != nil)
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Testing

/// The server under test: replace it by yours. It keeps the newest transaction of each purchase.
struct PurchaseKeeper {
    let verifier: AppStoreVerifier
    var purchases: [String: JWSTransactionDecodedPayload] = [:]

    /// Handles a notification: the body of the App Store's request.
    mutating func receive(_ body: [UInt8], at now: Timestamp) async throws -> NotificationTypeV2? {
        let signed = try JSONValue(parsing: body)["signedPayload"]?.string ?? ""
        let verified = try await verifier.verify(notification: signed.utf8, at: now)
        if let transaction = verified.transaction?.payload {
            purchases[transaction.originalTransactionId ?? ""] = transaction
        }
        return verified.notification.payload.notificationType?.known
    }
}

@Test func `a month renews, fails, recovers, and is refunded`() async throws {
    let app = AppIdentity(bundleId: "com.example.notes", appAppleId: 1_234_567_890)
    let start = try #require(Timestamp(iso8601: "2026-01-01T00:00:00Z"))
    let authority = try StoreAuthority.fixture()
    var store = SimulatedStore(
        World(seed: 1, catalogue: .example(bundleId: app.bundleId, appAppleId: 1_234_567_890), now: start),
        WorldSigner(authority), try StoreKey(seed: 1))
    store.notificationURLs[.production] = "https://example.com/notifications"
    var server = PurchaseKeeper(
        verifier: AppStoreVerifier(
            apps: .only([app]), environments: [.production], roots: try TrustRoots(reading: authority.roots[0])))

    /// Delivers what the App Store has sent since the last call.
    func notifications() async throws -> [NotificationTypeV2?] {
        var types: [NotificationTypeV2?] = []
        for delivery in try store.takeDeliveries() {
            types.append(try await server.receive(delivery.body, at: store.world.now))
            store.record(.success, of: delivery)
        }
        return types
    }

    func wait(days: Int64) {
        store.world.advance(to: Timestamp(milliseconds: store.world.now.milliseconds + days * 86_400_000))
    }

    try store.world.addCustomer("anna")
    let id = try #require(try store.world.buy("com.example.notes.pro.monthly", by: "anna"))
    #expect(try await notifications() == [.subscribed])
    wait(days: 7)  // The free week ends.
    #expect(try await notifications() == [.didRenew])
    try store.world.breakBilling(of: "anna")
    wait(days: 31)
    #expect(try await notifications() == [.didFailToRenew])
    try store.world.fixBilling(of: "anna")
    #expect(try await notifications() == [.didRenew])
    let newest = try #require(server.purchases[id]?.transactionId)
    try store.world.refund(newest)
    #expect(try await notifications() == [.refund])
    #expect(server.purchases[id]?.revocationDate != nil)
}

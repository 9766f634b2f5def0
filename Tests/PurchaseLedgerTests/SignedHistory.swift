// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedger
import ReceiptCoding
import TestWorld
import Testing

/// Documents that the App Store of all tests signs, and their evidence. Days are those of ``Facts``.
struct SignedHistory {
    let verifier: AppStoreVerifier
    private let store: TestStore

    init(in environments: Set<Environment> = [.production, .sandbox]) throws {
        store = try TestStore()
        verifier = store.verifier(of: .only([AppIdentity(bundleId: Facts.scope.bundleId)]), in: environments)
    }

    func sign(_ payload: some Encodable & SignedPayload) throws -> String { try store.sign(payload) }

    /// A signed transaction of a subscription's period.
    func transaction(
        _ id: String = "1", original: String = "1", product: String = "month", signed: Double = 0, from: Double = 0,
        until: Double? = 30, type: ProductType = .autoRenewableSubscription,
        _ change: (inout JWSTransactionDecodedPayload) -> Void = { _ in }
    ) throws -> String {
        try sign(
            TestStore.transaction(
                id, original: original, product: product, type: type, from: from, until: until, signed: signed
            ) {
                $0.subscriptionGroupIdentifier = type == .autoRenewableSubscription ? "g" : nil
                change(&$0)
            })
    }

    func renewal(
        original: String = "1", signed: Double, renews: Bool = true, retry: Bool? = nil, grace: Double? = nil,
        _ change: (inout JWSRenewalInfoDecodedPayload) -> Void = { _ in }
    ) throws -> String {
        try sign(
            TestStore.renewal(
                original: original, signed: signed, renews: renews, retry: retry, grace: grace, change))
    }

    /// A notification with these parts.
    func notification(
        _ type: String, subtype: String? = nil, signed: Double, transaction: String? = nil, renewal: String? = nil,
        _ change: (inout ResponseBodyV2DecodedPayload) -> Void = { _ in }
    ) throws -> String {
        try sign(
            TestStore.notification(
                type, subtype: subtype, signed: signed, transaction: transaction, renewal: renewal
            ) {
                $0.notificationUUID = "\(type) \(subtype ?? "") \(signed)"
                change(&$0)
            })
    }

    /// A document before it is verified.
    enum Document {
        case transaction(String)
        case notification(String)
        case receipt([InAppPurchase], created: Double)
    }

    func evidence(_ document: Document) async throws -> Evidence {
        switch document {
        case .transaction(let token): try await evidence(transaction: token)
        case .notification(let token): try await evidence(notification: token)
        case .receipt(let purchases, let created): try await evidence(receipt: purchases, created: created)
        }
    }

    func evidence(transaction token: String) async throws -> Evidence {
        try await verifier.evidence(transaction: token, at: Facts.day(0))
    }

    func evidence(notification token: String) async throws -> Evidence {
        try await verifier.evidence(notification: token, at: Facts.day(0))
    }

    /// An app receipt of the purchases.
    func evidence(receipt purchases: [InAppPurchase], created: Double) async throws -> Evidence {
        try await verifier.evidence(receipt: receipt(purchases, created: created), at: Facts.day(0))
    }

    func receipt(_ purchases: [InAppPurchase], created: Double) throws -> [UInt8] {
        try sign(TestStore.receipt(purchases, created: created))
    }

    func sign(_ receipt: AppReceipt) throws -> [UInt8] {
        var receipt = receipt
        receipt.bundleIdBytes = DEREncoding.utf8String(Facts.scope.bundleId)[...]
        return try store.sign(receipt)
    }
}

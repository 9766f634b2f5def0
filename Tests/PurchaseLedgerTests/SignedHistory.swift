// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import PurchaseLedger
import ReceiptCoding
import Testing

/// Documents that a simulated certificate authority signs, and their evidence. Days are those of ``Facts``.
struct SignedHistory {
    private static let authority = Result { try CertificateAuthority(from: Facts.day(-10)) }
    /// The certificates, issued once for all tests: issuing takes longer than signing.
    private static let plan = Result { try TokenPlan("", by: authority.get().tokens) }

    let verifier: AppStoreVerifier
    private let authority: CertificateAuthority
    private let plan: TokenPlan

    init() throws {
        authority = try Self.authority.get()
        plan = try Self.plan.get()
        let roots = try authority.roots.map { try TrustRoots(reading: $0) }
        verifier = AppStoreVerifier(
            apps: .only([AppIdentity(bundleId: Facts.scope.bundleId)]), environments: [.production, .sandbox],
            roots: roots.dropFirst().reduce(roots[0]) { $0.union($1) })
    }

    func sign(_ payload: some Encodable & SignedPayload) throws -> String {
        var plan = plan
        plan.payload = Array(try JSONValue(encoding: payload).compactText.utf8)
        return try plan.signed()
    }

    /// A signed transaction of a subscription's period.
    func transaction(
        _ id: String = "1", original: String = "1", product: String = "month", signed: Double = 0, from: Double = 0,
        until: Double? = 30, type: ProductType = .autoRenewableSubscription,
        _ change: (inout JWSTransactionDecodedPayload) -> Void = { _ in }
    ) throws -> String {
        var payload = JWSTransactionDecodedPayload()
        payload.transactionId = id
        payload.originalTransactionId = original
        payload.bundleId = Facts.scope.bundleId
        payload.environment = Open(.production)
        payload.productId = product
        payload.type = Open(type)
        payload.subscriptionGroupIdentifier = type == .autoRenewableSubscription ? "g" : nil
        payload.purchaseDate = Facts.day(from)
        payload.expiresDate = until.map(Facts.day)
        payload.signedDate = Facts.day(signed)
        change(&payload)
        return try sign(payload)
    }

    func renewal(
        original: String = "1", signed: Double, renews: Bool = true, retry: Bool? = nil, grace: Double? = nil,
        _ change: (inout JWSRenewalInfoDecodedPayload) -> Void = { _ in }
    ) throws -> String {
        var payload = JWSRenewalInfoDecodedPayload()
        payload.originalTransactionId = original
        payload.environment = Open(.production)
        payload.autoRenewProductId = "month"
        payload.autoRenewStatus = Open(renews ? .on : .off)
        payload.isInBillingRetryPeriod = retry
        payload.gracePeriodExpiresDate = grace.map(Facts.day)
        payload.signedDate = Facts.day(signed)
        change(&payload)
        return try sign(payload)
    }

    /// A notification with these parts.
    func notification(
        _ type: String, subtype: String? = nil, signed: Double, transaction: String? = nil, renewal: String? = nil,
        _ change: (inout ResponseBodyV2DecodedPayload) -> Void = { _ in }
    ) throws -> String {
        var data = NotificationData()
        data.bundleId = Facts.scope.bundleId
        data.environment = Open(.production)
        data.signedTransactionInfo = transaction
        data.signedRenewalInfo = renewal
        var payload = ResponseBodyV2DecodedPayload()
        payload.notificationType = Open(rawValue: type)
        payload.subtype = subtype.map { Open(rawValue: $0) }
        payload.notificationUUID = "\(type) \(subtype ?? "") \(signed)"
        payload.signedDate = Facts.day(signed)
        payload.data = data
        change(&payload)
        return try sign(payload)
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
        let verified = try await verifier.verify(
            token.utf8, as: JWSTransactionDecodedPayload.self, at: Facts.day(0))
        return try #require(Evidence(verified))
    }

    func evidence(notification token: String) async throws -> Evidence {
        try #require(Evidence(try await verifier.verify(notification: token.utf8, at: Facts.day(0))))
    }

    /// An app receipt of the purchases.
    func evidence(receipt purchases: [InAppPurchase], created: Double) async throws -> Evidence {
        let document = try receipt(purchases, created: created)
        return try #require(Evidence(try await verifier.verify(receipt: document, at: Facts.day(0))))
    }

    func receipt(_ purchases: [InAppPurchase], created: Double) throws -> [UInt8] {
        var receipt = AppReceipt()
        receipt.receiptType = Open(.production)
        receipt.bundleId = Facts.scope.bundleId
        receipt.bundleIdBytes = DEREncoding.utf8String(Facts.scope.bundleId)[...]
        receipt.receiptCreationDate = Facts.day(created)
        receipt.inAppPurchases = purchases
        return try authority.sign(receipt)
    }
}

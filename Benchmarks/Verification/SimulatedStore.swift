// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust

/// A simulated App Store that signs with a chain shaped like Apple's: P-384, P-384, P-256.
struct SimulatedStore {
    private let authority: CertificateAuthority
    let verifier: AppStoreVerifier

    init() throws {
        authority = try CertificateAuthority(from: Timestamp(milliseconds: now.milliseconds - 86_400_000))
        let roots = try authority.roots.map { try TrustRoots(reading: $0) }
        verifier = AppStoreVerifier(apps: .any, environments: [.production], roots: roots[0].union(roots[1]))
    }

    func transaction() throws -> [UInt8] {
        try sign(transactionPayload, as: JWSTransactionDecodedPayload.self)
    }

    func renewalInfo() throws -> [UInt8] {
        try sign(renewalPayload, as: JWSRenewalInfoDecodedPayload.self)
    }

    func notification() throws -> [UInt8] {
        let (transaction, renewalInfo) = (try transaction(), try renewalInfo())
        let payload = """
            {"notificationType":"DID_RENEW","subtype":"BILLING_RECOVERY","notificationUUID":\
            "8e2b4c1a-6f0d-4a8e-9b57-0c3d5e7f9a1b","data":{"appAppleId":1234567890,"bundleId":"com.example.notes",\
            "bundleVersion":"4.2.1","environment":"Production","signedTransactionInfo":\
            "\(String(decoding: transaction, as: UTF8.self))","signedRenewalInfo":\
            "\(String(decoding: renewalInfo, as: UTF8.self))","status":1},"version":"2.0",\
            "signedDate":\(now.milliseconds)}
            """
        return try sign(payload, as: ResponseBodyV2DecodedPayload.self)
    }

    private func sign<Payload: SignedPayload & Encodable>(_ json: String, as type: Payload.Type) throws -> [UInt8] {
        Array(try authority.sign(JSONValue(parsing: json.utf8).decode(type)).utf8)
    }
}

/// A subscription's renewal with every member that one has had in tokens of the App Store.
private let transactionPayload = """
    {"transactionId":"710001234567890","originalTransactionId":"710001234500000","webOrderLineItemId":\
    "710000567890123","bundleId":"com.example.notes","productId":"com.example.notes.premium.yearly",\
    "subscriptionGroupIdentifier":"20567890","purchaseDate":1749900000000,"originalPurchaseDate":1718364000000,\
    "expiresDate":1781436000000,"quantity":1,"type":"Auto-Renewable Subscription","appAccountToken":\
    "7f3d2c1b-5a49-4e8d-b6c7-1f0e2d3c4b5a","inAppOwnershipType":"PURCHASED","signedDate":1750000000000,\
    "revocationReason":1,"revocationDate":1749950000000,"isUpgraded":true,"offerType":2,"offerIdentifier":\
    "com.example.notes.winter.2025","environment":"Production","transactionReason":"RENEWAL","storefront":"USA",\
    "storefrontId":"143441","price":49990,"currency":"USD","offerDiscountType":"PAY_AS_YOU_GO",\
    "appTransactionId":"704567890123456789","offerPeriod":"P1M","revocationType":"REFUND_PRORATED",\
    "revocationPercentage":50000,"deviceVerification":\
    "bvBvdLNWmCq0nMnBPZ0qcL0nRk4vYc8sH3GkZJ7u1xQwSvXh2mTzE5fUa9oRiKdP","deviceVerificationNonce":\
    "0b9f7a52-3c1d-4e6f-8a90-d2c4b6e8f012"}
    """

private let renewalPayload = """
    {"originalTransactionId":"710001234500000","productId":"com.example.notes.premium.yearly",\
    "autoRenewProductId":"com.example.notes.premium.yearly","autoRenewStatus":1,"isInBillingRetryPeriod":false,\
    "priceIncreaseStatus":1,"offerType":2,"offerIdentifier":"com.example.notes.winter.2025",\
    "signedDate":1750000000000,"environment":"Production","recentSubscriptionStartDate":1718364000000,\
    "renewalDate":1781436000000,"renewalPrice":49990,"currency":"USD","offerDiscountType":"PAY_AS_YOU_GO",\
    "appAccountToken":"7f3d2c1b-5a49-4e8d-b6c7-1f0e2d3c4b5a","appTransactionId":"704567890123456789",\
    "offerPeriod":"P1M"}
    """

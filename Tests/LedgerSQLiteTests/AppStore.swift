// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import PurchaseLedger

/// Signs documents as the App Store does, all with the same certificates, and verifies them.
struct AppStore: Sendable {
    static let bundleId = "com.example.company.application"
    static let scope = LedgerScope(bundleId: bundleId, environment: .production)
    private static let now: Int64 = 1_750_000_000_000

    let authority: CertificateAuthority
    private let token: TokenPlan
    let verifier: AppStoreVerifier

    init() throws {
        authority = try CertificateAuthority(from: Timestamp(milliseconds: Self.now - 86_400_000))
        var token = try TokenPlan("", by: authority.tokens)
        // Makes the header as long as Apple's, which has larger certificates: 4.4 KB.
        token.header = token.plainHeader.dropLast() + #","kid":"\#(String(repeating: "A", count: 1350))"}"#
        self.token = token
        verifier = AppStoreVerifier(
            apps: .any, environments: [.production],
            roots: try authority.roots.map { try TrustRoots(reading: $0) }.reduce(
                TrustRoots(reading: authority.roots[0])
            ) {
                $0.union($1)
            })
    }

    func sign(_ payload: String) throws -> String {
        var token = token
        token.payload = Array(payload.utf8)
        return try token.signed()
    }

    /// A first purchase by a new customer, with every member that a subscription with an offer has: 21 KB.
    func notification(_ random: inout SeededRandom) throws -> String {
        let ids = (Self.digits(&random), Self.digits(&random), Self.digits(&random))
        let account = Self.uuid(&random)
        let start = Self.now + Int64.random(in: 0..<86_400_000, using: &random)
        let transaction = try sign(
            """
            {"transactionId":"\(ids.0)","originalTransactionId":"\(ids.0)","webOrderLineItemId":"\(ids.1)",\
            "bundleId":"\(Self.bundleId)","productId":"\(Self.bundleId).premium.monthly",\
            "subscriptionGroupIdentifier":"21034567","purchaseDate":\(start),"originalPurchaseDate":\(start + 1000),\
            "expiresDate":\(start + 2_592_000_000),"quantity":1,"type":"Auto-Renewable Subscription",\
            "appAccountToken":"\(account)","inAppOwnershipType":"PURCHASED","signedDate":\(start + 5_123),\
            "offerType":2,"offerIdentifier":"autumn.campaign","environment":"Production",\
            "transactionReason":"PURCHASE","storefront":"USA","storefrontId":"143441","price":9990,"currency":"USD",\
            "offerDiscountType":"PAY_AS_YOU_GO","appTransactionId":"70\(ids.2)","offerPeriod":"P1M",\
            "billingPlanType":"MONTHLY","commitmentInfo":{"billingPeriodNumber":1,"totalBillingPeriods":12,\
            "commitmentExpiresDate":\(start + 31_536_000_000),"commitmentPrice":119880}}
            """)
        let renewal = try sign(
            """
            {"originalTransactionId":"\(ids.0)","autoRenewProductId":"\(Self.bundleId).premium.monthly",\
            "productId":"\(Self.bundleId).premium.monthly","autoRenewStatus":1,"renewalPrice":9990,"currency":"USD",\
            "signedDate":\(start + 5_124),"environment":"Production","recentSubscriptionStartDate":\(start),\
            "renewalDate":\(start + 2_592_000_000),"offerType":2,"offerIdentifier":"autumn.campaign",\
            "offerDiscountType":"PAY_AS_YOU_GO","offerPeriod":"P1M","appAccountToken":"\(account)",\
            "appTransactionId":"70\(ids.2)","renewalBillingPlanType":"MONTHLY"}
            """)
        return try sign(
            """
            {"notificationType":"SUBSCRIBED","subtype":"INITIAL_BUY","notificationUUID":"\(Self.uuid(&random))",\
            "data":{"appAppleId":1234567890,"bundleId":"\(Self.bundleId)","bundleVersion":"1234",\
            "environment":"Production","signedTransactionInfo":"\(transaction)","signedRenewalInfo":"\(renewal)",\
            "status":1},"version":"2.0","signedDate":\(start + 5_130)}
            """)
    }

    func evidence(of notification: String) async throws -> Evidence {
        let time = Timestamp(milliseconds: Self.now)
        guard let evidence = Evidence(try await verifier.verify(notification: notification.utf8, at: time)) else {
            throw CocoaError(.coderInvalidValue)
        }
        return evidence
    }

    private static func digits(_ random: inout SeededRandom) -> String {
        "\(Int64.random(in: 100_000_000_000_000..<1_000_000_000_000_000, using: &random))"
    }

    private static func uuid(_ random: inout SeededRandom) -> String {
        let digits = (0..<32).map { _ in String(Int.random(in: 0..<16, using: &random), radix: 16) }.joined()
        return [(0, 8), (8, 4), (12, 4), (16, 4), (20, 12)].map { String(digits.dropFirst($0).prefix($1)) }
            .joined(separator: "-")
    }
}

extension Evidence {
    /// A document that was not verified. A storage accepts any document.
    ///
    /// - Parameter chain: The original transaction id of the purchase that the document is about, if any.
    static func unverified(
        _ document: [UInt8], _ kind: Evidence.Kind = .notification, about chain: String? = nil,
        in scope: LedgerScope = AppStore.scope
    ) -> Evidence {
        Evidence(kind, document, scope, nil) { provenance in
            (
                chain.map { id in
                    [
                        TransactionStatement(
                            source: .receipt, provenance: provenance, transactionId: id, originalTransactionId: id,
                            productId: "p")
                    ]
                } ?? [], []
            )
        }
    }
}

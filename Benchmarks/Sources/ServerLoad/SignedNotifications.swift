// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import PurchaseLedger

/// An App Store of our own, whose notifications are as long as Apple's.
struct SimulatedStore: Sendable {
    static let scope = LedgerScope(bundleId: "com.example.notes", environment: .production)
    static let product = "com.example.notes.premium.monthly"
    static let entitlement = "premium"

    /// The instant at which everything here is signed, verified and asked for.
    static let now = Timestamp(milliseconds: 1_750_000_000_000)

    /// As DER.
    let roots: [[UInt8]]
    private let signer: TokenSigner

    init() throws {
        let authority = try CertificateAuthority(from: Timestamp(milliseconds: Self.now.milliseconds - 86_400_000))
        roots = try authority.roots
        // A header as long as Apple's of 4.4 KB, whose certificates are larger.
        signer = try authority.tokenSigner(
            headerMembers: #""kid":"\#(String(repeating: "A", count: 1000))","#)
    }

    static func verifier(_ roots: [[UInt8]]) throws -> AppStoreVerifier {
        let roots = try roots.map { try TrustRoots(reading: $0) }
        return AppStoreVerifier(
            apps: .any, environments: [scope.environment], roots: roots.dropFirst().reduce(roots[0]) { $0.union($1) })
    }

    /// Signs on both cores; it takes as long as verifying.
    func notifications(_ count: Int) async throws -> [String] {
        try await withThrowingTaskGroup(of: [String].self) { group in
            for part in 0..<2 {
                group.addTask {
                    var random = SeededRandom(seed: UInt64(part))
                    return try (0..<count / 2).map { _ in try notification(&random) }
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
    }

    /// A first purchase by a new customer, with every member that a subscription with an offer has.
    private func notification(_ random: inout SeededRandom) throws -> String {
        let purchase = Purchase(&random)
        let payload = """
            {"notificationType":"SUBSCRIBED","subtype":"INITIAL_BUY","notificationUUID":"\(Purchase.uuid(&random))",\
            "data":{"appAppleId":1234567890,"bundleId":"\(Self.scope.bundleId)","bundleVersion":"1234",\
            "environment":"Production","signedTransactionInfo":"\(try sign(purchase.transaction))",\
            "signedRenewalInfo":"\(try sign(purchase.renewal))","status":1},"version":"2.0",\
            "signedDate":\(purchase.start + 5_130)}
            """
        return try sign(payload)
    }

    private func sign(_ payload: String) throws -> String { try signer.sign(Array(payload.utf8)) }
}

/// What a notification is about.
private struct Purchase {
    let id: String
    let lineItem: String
    let appTransaction: String
    let account: String
    let start: Int64

    init(_ random: inout SeededRandom) {
        id = Self.digits(&random)
        lineItem = Self.digits(&random)
        appTransaction = "70" + Self.digits(&random)
        account = Self.uuid(&random)
        start = SimulatedStore.now.milliseconds - Int64.random(in: 10_000..<80_000_000, using: &random)
    }

    var transaction: String {
        """
        {"transactionId":"\(id)","originalTransactionId":"\(id)","webOrderLineItemId":"\(lineItem)",\
        "bundleId":"\(SimulatedStore.scope.bundleId)","productId":"\(SimulatedStore.product)",\
        "subscriptionGroupIdentifier":"21034567","purchaseDate":\(start),"originalPurchaseDate":\(start + 1000),\
        "expiresDate":\(start + 2_592_000_000),"quantity":1,"type":"Auto-Renewable Subscription",\
        "appAccountToken":"\(account)","inAppOwnershipType":"PURCHASED","signedDate":\(start + 5_123),\
        "offerType":2,"offerIdentifier":"autumn.campaign","environment":"Production",\
        "transactionReason":"PURCHASE","storefront":"USA","storefrontId":"143441","price":9990,"currency":"USD",\
        "offerDiscountType":"PAY_AS_YOU_GO","appTransactionId":"\(appTransaction)","offerPeriod":"P1M",\
        "billingPlanType":"MONTHLY","commitmentInfo":{"billingPeriodNumber":1,"totalBillingPeriods":12,\
        "commitmentExpiresDate":\(start + 31_536_000_000),"commitmentPrice":119880}}
        """
    }

    var renewal: String {
        """
        {"originalTransactionId":"\(id)","autoRenewProductId":"\(SimulatedStore.product)",\
        "productId":"\(SimulatedStore.product)","autoRenewStatus":1,"renewalPrice":9990,"currency":"USD",\
        "signedDate":\(start + 5_124),"environment":"Production","recentSubscriptionStartDate":\(start),\
        "renewalDate":\(start + 2_592_000_000),"offerType":2,"offerIdentifier":"autumn.campaign",\
        "offerDiscountType":"PAY_AS_YOU_GO","offerPeriod":"P1M","appAccountToken":"\(account)",\
        "appTransactionId":"\(appTransaction)","renewalBillingPlanType":"MONTHLY"}
        """
    }

    private static func digits(_ random: inout SeededRandom) -> String {
        "\(Int64.random(in: 100_000_000_000_000..<1_000_000_000_000_000, using: &random))"
    }

    static func uuid(_ random: inout SeededRandom) -> String {
        let digits = Array("0123456789abcdef")
        return [8, 4, 4, 4, 12].map { count in
            String((0..<count).map { _ in digits[Int.random(in: 0..<16, using: &random)] })
        }.joined(separator: "-")
    }
}

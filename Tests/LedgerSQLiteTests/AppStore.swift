// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import PurchaseLedger
import TestWorld

/// A simulated App Store whose tokens are as long as Apple's, and a verifier that trusts it.
struct AppStore: Sendable {
    static let bundleId = "com.example.company.application"
    static let scope = LedgerScope(bundleId: bundleId, environment: .production)
    private static let now = Timestamp(milliseconds: 1_750_000_000_000)
    private static let product = "\(bundleId).premium.monthly"

    let verifier: AppStoreVerifier
    private var store: TestStore
    private var world: World

    init() throws {
        store = try TestStore()
        // Makes the header as long as Apple's, which has larger certificates: 4.4 KB.
        store.signer.headerMembers = #""kid":"\#(String(repeating: "A", count: 1350))","#
        verifier = store.verifier(in: [.production])
        var premium = StoreProduct.subscription(Self.product, Period(1, .year))
        premium.plan?.monthly = MonthlyPlan(
            price: StorePrice(milliunits: 9990), commitmentPrice: StorePrice(milliunits: 119_880))
        premium.offers = [
            StoreOffer(
                type: .promotional, id: "autumn.campaign", payment: .payAsYouGo, period: Period(1, .month),
                price: StorePrice(milliunits: 4990))
        ]
        world = World(
            selling: [premium], in: AppIdentity(bundleId: Self.bundleId, appAppleId: 1_234_567_890), at: Self.now)
        // In the USA the App Store sells no commitments.
        world.catalogue.storefront = Storefront.known.first { $0.country == "DEU" } ?? .usa
    }

    /// The signer of receipts.
    var receipts: SigningChain { store.receipts }

    func sign(_ payload: String) throws -> String { try store.sign(payload, at: Self.now) }

    /// A first purchase by a new customer, with every member that a subscription with an offer has: 21 KB.
    ///
    /// - Parameter isMonthly: Whether the customer commits to twelve months, as few do.
    mutating func notification(isMonthly: Bool = true) throws -> String {
        let options = PurchaseOptions(offer: "autumn.campaign", isMonthly: isMonthly)
        return try store.signer.notification(
            world.sell(Self.product, options, hasAccount: true), from: world.catalogue)
    }

    func evidence(of notification: String) async throws -> Evidence {
        try await verifier.evidence(notification: notification, at: Self.now)
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
                            source: .receipt, provenance: provenance, transactionId: id, chain: id,
                            productId: "p")
                    ]
                } ?? [], []
            )
        }
    }
}

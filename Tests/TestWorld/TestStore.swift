// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import AppStoreSimulator
package import AppStoreTrust
package import ReceiptCoding

/// The App Store of all tests: the committed signers of seeded worlds, and the verifiers that trust them.
///
/// It makes no keys. So one payload gives one token in every process, but for the signature, and the ledger decides the
/// same about it.
package struct TestStore: Sendable {
    private static let authority = Result { try StoreAuthority.fixture() }

    package var signer: WorldSigner
    /// The roots of the signers.
    package let roots: TrustRoots

    package init() throws { try self.init(Self.authority.get()) }

    /// Another App Store, whose keys are new.
    package init(_ authority: StoreAuthority) throws {
        signer = WorldSigner(authority)
        roots = try TrustRoots(authority.roots)
    }

    /// A verifier that trusts this App Store.
    package func verifier(
        of apps: AcceptedApps = .any, in environments: Set<Environment> = [.production, .sandbox]
    ) -> AppStoreVerifier {
        AppStoreVerifier(apps: apps, environments: environments, roots: roots)
    }

    /// The signer of app receipts.
    package var receipts: SigningChain { signer.authority.receipts(at: Self.start) }

    /// Signs a payload as it is.
    package func sign(_ payload: some Encodable & SignedPayload) throws -> String {
        try sign(JSONValue(encoding: payload).compactText)
    }

    /// Signs any text as a payload.
    package func sign(_ payload: String, at date: Timestamp = start) throws -> String {
        try signer.token(Array(payload.utf8), at: date)
    }

    package func sign(_ receipt: AppReceipt) throws -> [UInt8] {
        try signer.sign(receipt, at: Self.start)
    }
}

extension TrustRoots {
    /// The roots of an authority, each as DER.
    package init(_ roots: [[UInt8]]) throws {
        let roots = try roots.map { try TrustRoots(reading: $0) }
        self = roots.dropFirst().reduce(roots[0]) { $0.union($1) }
    }
}

extension CertificateAuthority {
    /// The authority's roots.
    package var trust: TrustRoots { get throws { try TrustRoots(roots) } }
}

extension World {
    /// A world that sells some products in one app.
    package init(selling products: [StoreProduct], in app: AppIdentity, at now: Timestamp) {
        var catalogue = StoreCatalogue(bundleId: app.bundleId, appAppleId: app.appAppleId ?? 0)
        for product in products { catalogue.add(product) }
        self.init(seed: 1, catalogue: catalogue, now: now)
    }

    /// Lets a new customer buy a product, and returns the event.
    package mutating func sell(
        _ product: String, _ options: PurchaseOptions = PurchaseOptions(), hasAccount: Bool = false
    ) throws -> Occurrence {
        let customer = try addCustomer("customer \(customers.count)", hasAccount: hasAccount)
        try buy(product, by: customer.name, options)
        return occurrences[occurrences.count - 1]
    }
}

extension StoreProduct {
    /// A subscription without offers.
    package static func subscription(_ id: String, _ period: Period, price: Int64 = 9990) -> StoreProduct {
        var product = StoreProduct(id: id, type: .autoRenewableSubscription, price: StorePrice(milliunits: price))
        product.plan = SubscriptionPlan(group: "21000001", level: 1, period: period)
        return product
    }
}

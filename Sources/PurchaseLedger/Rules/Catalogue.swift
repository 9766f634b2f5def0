// SPDX-License-Identifier: Apache-2.0

/// The access that each product of an app grants. The catalogue comes from the configuration, because Apple's documents
/// do not say what a product grants.
public struct Catalogue: Hashable, Sendable {
    /// The products, by id.
    public var products: [String: Product] { didSet { derive() } }

    /// How long a subscription still entitles after its end if no document about its renewal has arrived. Apple charges
    /// up to a day before the end, and its notifications are usually only minutes late. The default, an hour, covers
    /// this delay and grants little unpaid access.
    public var staleLeeway: Duration { didSet { derive() } }

    /// The rules by which a purchase of the app itself grants entitlements. Each rule that a purchase meets counts.
    public var appPurchase: [AppPurchaseRule] = [] { didSet { derive() } }

    /// The transaction ids of purchases that grant nothing, whatever the App Store signs; see ``refuses(_:)``.
    public var refusedPurchases: Set<String> { didSet { derive() } }

    /// A number for everything that decides when purchases are settled, see ``Settlement``. Two catalogues with the
    /// same number settle each purchase at the same instant.
    package private(set) var stamp: Int64 = 0

    /// The names of all entitlements that the catalogue grants. Each question about an entitlement asks for them.
    package private(set) var entitlements: Set<String> = []

    /// The catalogue of an app without one.
    static let empty = Catalogue()

    public init(
        products: [String: Product] = [:], staleLeeway: Duration = .seconds(3600), refusedPurchases: Set<String> = []
    ) {
        self.products = products
        self.staleLeeway = staleLeeway
        self.refusedPurchases = refusedPurchases
        derive()
    }

    private mutating func derive() {
        stamp = Self.stamp(products, staleLeeway, refusedPurchases)
        let own = Set(appPurchase.flatMap(\.entitlements))
        entitlements = products.values.reduce(into: own) { $0.formUnion($1.entitlements) }
    }

    /// The access that a product grants.
    public struct Product: Hashable, Sendable {
        /// The names of the product's entitlements, chosen by the app.
        public var entitlements: Set<String>
        /// The product's level in its subscription group, as in App Store Connect: 1 is the highest. Products without a
        /// level rank last.
        public var level: Int?
        /// The duration of a non-renewing subscription; `nil` for no end. Apple leaves the duration to the app.
        public var duration: Duration?

        public init(entitlements: Set<String>, level: Int? = nil, duration: Duration? = nil) {
            self.entitlements = entitlements
            self.level = level
            self.duration = duration
        }
    }

    /// The rank of a product in its group. A lower rank is better.
    func rank(_ productId: String) -> Int { products[exactly: productId]?.level ?? .max }
}

extension Catalogue {
    /// The names of the entitlements that a purchase grants: those of its product, or of the rules for the app's own
    /// purchase.
    func entitlements(of purchase: TransactionStatement) -> Set<String> {
        guard purchase.isAppPurchase else { return products[exactly: purchase.productId]?.entitlements ?? [] }
        return appPurchase.reduce(into: []) { if $1.holds(for: purchase) { $0.formUnion($1.entitlements) } }
    }
}

// SPDX-License-Identifier: Apache-2.0

/// What an app's purchases grant. It comes from the configuration, because Apple's documents do not contain it.
public struct Catalogue: Hashable, Sendable {
    /// The products, by id.
    public var products: [String: Product]

    /// How long a subscription still entitles after its end if no document about its renewal has arrived. Apple charges
    /// up to a day before the end, and its notifications are usually only minutes late. The default, an hour, covers
    /// that delay and grants little unpaid access.
    public var staleLeeway: Duration

    /// The purchases that grant nothing, whatever the App Store signs: see ``refuses(_:)``.
    public var refusedPurchases: Set<String>

    public init(
        products: [String: Product] = [:], staleLeeway: Duration = .seconds(3600), refusedPurchases: Set<String> = []
    ) {
        self.products = products
        self.staleLeeway = staleLeeway
        self.refusedPurchases = refusedPurchases
    }

    /// What one product grants.
    public struct Product: Hashable, Sendable {
        /// The entitlements that it grants, by names that the app chose.
        public var entitlements: Set<String>
        /// The product's level in its subscription group, as in App Store Connect: 1 is the highest. A product without
        /// a level ranks last.
        public var level: Int?
        /// How long a non-renewing subscription lasts; `nil` for no end. Apple leaves this to the app.
        public var duration: Duration?

        public init(entitlements: Set<String>, level: Int? = nil, duration: Duration? = nil) {
            self.entitlements = entitlements
            self.level = level
            self.duration = duration
        }
    }

    /// The rank of a product in its group: lower is better.
    func rank(_ productId: String) -> Int { products[productId]?.level ?? .max }
}

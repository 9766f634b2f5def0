// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

/// What an app's products grant. It comes from the configuration, because Apple's documents do not contain it.
public struct Catalogue: Hashable, Sendable {
    /// By product id.
    public var products: [String: Product]

    /// How long a subscription still counts if its renewal has not arrived. Apple charges up to a day before the end,
    /// and its notifications are usually only minutes late. An hour bridges that and gives away little.
    public var staleLeeway: Duration

    public init(products: [String: Product] = [:], staleLeeway: Duration = .seconds(3600)) {
        self.products = products
        self.staleLeeway = staleLeeway
    }

    /// What one product grants.
    public struct Product: Hashable, Sendable {
        /// The entitlements that it grants, by names that the app chose.
        public var entitlements: Set<String>
        /// Its level in its subscription group, as in App Store Connect: 1 is the highest. A product without one ranks
        /// last.
        public var level: Int?
        /// How long a non-renewing subscription lasts, which Apple leaves to the app; `nil` for no end.
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

extension Timestamp {
    /// The timestamp `duration` later, or `distantFuture` if the sum overflows.
    package func advanced(by duration: Duration) -> Timestamp {
        let (seconds, attoseconds) = duration.components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        let (sum, overflow2) = milliseconds.addingReportingOverflow(product)
        let (end, overflow3) = sum.addingReportingOverflow(attoseconds / 1_000_000_000_000_000)
        return overflow || overflow2 || overflow3 ? .distantFuture : Timestamp(milliseconds: end)
    }
}

// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

/// What an app's products stand for: by configuration, since no document of Apple's says it.
public struct Catalogue: Hashable, Sendable {
    /// By product id.
    public var products: [String: Product]

    /// How long a subscription whose renewal has not arrived still counts. Apple charges up to a day before the end, and
    /// its notifications are minutes late at most days; an hour bridges that and gives away little.
    public var staleLeeway: Duration

    public init(products: [String: Product] = [:], staleLeeway: Duration = .seconds(3600)) {
        self.products = products
        self.staleLeeway = staleLeeway
    }

    /// One product, as named in App Store Connect.
    public struct Product: Hashable, Sendable {
        /// What it entitles to, by names that the app chose.
        public var entitlements: Set<String>
        /// Its rank in its subscription group: 1 is the highest, as in App Store Connect. Last where there is none.
        public var level: Int?
        /// How long a non-renewing subscription lasts. Apple leaves that to the app; without it there is no end.
        public var duration: Duration?

        public init(entitlements: Set<String>, level: Int? = nil, duration: Duration? = nil) {
            self.entitlements = entitlements
            self.level = level
            self.duration = duration
        }
    }

    /// The rank of a product for comparisons: lower is better.
    func rank(_ productId: String) -> Int { products[productId]?.level ?? .max }
}

extension Timestamp {
    /// `duration` later, and at the end of time where that is beyond it.
    package func advanced(by duration: Duration) -> Timestamp {
        let (seconds, attoseconds) = duration.components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        let (sum, overflow2) = milliseconds.addingReportingOverflow(product)
        let (end, overflow3) = sum.addingReportingOverflow(attoseconds / 1_000_000_000_000_000)
        return overflow || overflow2 || overflow3 ? .distantFuture : Timestamp(milliseconds: end)
    }
}

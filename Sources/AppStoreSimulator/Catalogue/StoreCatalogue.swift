// SPDX-License-Identifier: Apache-2.0

/// What a simulated App Store sells in one app.
public struct StoreCatalogue: Hashable, Sendable {
    /// The app's bundle identifier.
    public var bundleId: String
    /// The app's Apple ID.
    public var appAppleId: Int64
    /// The version that customers have installed: `bundleVersion` of notifications.
    public var appVersion = "1"
    /// In the order in which they were listed.
    public private(set) var products: [StoreProduct] = []
    /// How long a customer keeps access after a failed charge; `nil` if there is no billing grace period.
    public var graceDays: GraceDays?
    /// Where a customer shops unless it is said otherwise.
    public var storefront = Storefront.usa

    /// Creates a catalogue without products.
    public init(bundleId: String, appAppleId: Int64) {
        self.bundleId = bundleId
        self.appAppleId = appAppleId
    }

    /// The product of this name.
    public subscript(id: String) -> StoreProduct? {
        products.first { $0.id == id }
    }

    /// The Apple ID of a product: a number after the app's own, by the place in ``products``.
    public func appleId(of id: String) -> Int64? {
        products.firstIndex { $0.id == id }.map { appAppleId &+ 1000 &+ Int64($0) }
    }

    /// Adds a product, or puts it in the place of the one of its name.
    public mutating func add(_ product: StoreProduct) {
        if let index = products.firstIndex(where: { $0.id == product.id }) {
            products[index] = product
        } else {
            products.append(product)
        }
    }
}

/// The lengths of a billing grace period that App Store Connect offers.
public enum GraceDays: Int, CaseIterable, Sendable {
    case three = 3
    case sixteen = 16
    case twentyEight = 28

    /// The grace period of a subscription: of weekly ones it has six days at most.
    func period(after period: Period) -> Period {
        period == Period(1, .week) ? Period(min(rawValue, 6), .day) : Period(rawValue, .day)
    }
}

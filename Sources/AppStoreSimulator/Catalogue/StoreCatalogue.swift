// SPDX-License-Identifier: Apache-2.0

/// The products of an app in a simulated App Store.
public struct StoreCatalogue: Hashable, Sendable {
    /// The app's bundle identifier.
    public var bundleId: String
    /// The app's Apple ID.
    public var appAppleId: Int64
    /// The version of the app that customers have installed: `bundleVersion` of notifications.
    public var appVersion = "1"
    /// The products, in the order of addition.
    public private(set) var products: [StoreProduct] = []
    /// The length of the billing grace period after a failed charge; `nil` for an app without a grace period.
    public var graceDays: GraceDays?
    /// The default storefront of a new customer.
    public var storefront = Storefront.usa

    /// Creates a catalogue without products.
    public init(bundleId: String, appAppleId: Int64) {
        self.bundleId = bundleId
        self.appAppleId = appAppleId
    }

    /// The product with this id.
    public subscript(id: String) -> StoreProduct? {
        products.first { $0.id == id }
    }

    /// The Apple ID of a product: the app's own Apple ID plus 1000 and the index in ``products``.
    public func appleId(of id: String) -> Int64? {
        products.firstIndex { $0.id == id }.map { appAppleId &+ 1000 &+ Int64($0) }
    }

    /// Adds a product, or replaces the product with the same id.
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

    /// The grace period of a subscription. A weekly subscription has at most six days.
    func period(after period: Period) -> Period {
        period == Period(1, .week) ? Period(min(rawValue, 6), .day) : Period(rawValue, .day)
    }
}

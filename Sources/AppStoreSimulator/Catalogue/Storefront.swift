// SPDX-License-Identifier: Apache-2.0

/// The App Store of a country or region.
public struct Storefront: Hashable, Sendable {
    /// ISO 3166-1 alpha-3 code, such as `USA`.
    public var country: String
    /// The number that the App Store signs as `storefrontId`: a string of digits.
    public var id: String
    /// ISO 4217 code of the currency of prices.
    public var currency: String

    /// Creates a storefront.
    public init(country: String, id: String, currency: String) {
        self.country = country
        self.id = id
        self.currency = currency
    }
}

extension Storefront {
    /// The United States of America.
    public static let usa = Storefront(country: "USA", id: "143441", currency: "USD")

    /// The storefronts of a simulated App Store, in addition to the catalogue's own ``StoreCatalogue/storefront``.
    public static let known: [Storefront] = [
        usa,
        Storefront(country: "GBR", id: "143444", currency: "GBP"),
        Storefront(country: "JPN", id: "143462", currency: "JPY"),
        Storefront(country: "CHE", id: "143459", currency: "CHF"),
        Storefront(country: "DEU", id: "143443", currency: "EUR"),
        Storefront(country: "FRA", id: "143442", currency: "EUR"),
        Storefront(country: "ESP", id: "143454", currency: "EUR"),
        Storefront(country: "ITA", id: "143450", currency: "EUR"),
        Storefront(country: "NLD", id: "143452", currency: "EUR"),
        Storefront(country: "AUT", id: "143445", currency: "EUR"),
    ]
}

// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
public import AppStoreTrust
public import PurchaseLedger

/// The customers whose sandbox purchases count if a request names no environment.
///
/// App Review and TestFlight use the same build as the customers of the App Store, but buy in the sandbox. App Review
/// rejects an app that does not deliver these purchases. If they count, however, anyone with access to the app in
/// TestFlight gets the goods without paying.
public enum SandboxAccess: String, CaseIterable, Sendable {
    /// Sandbox purchases of all customers count.
    case all
    /// Only sandbox purchases of the customers in ``AppConfiguration/sandboxCustomers`` count.
    case listed
    /// Sandbox purchases of no customer count.
    case none
}

/// The configuration of one app.
public struct AppConfiguration: Sendable {
    /// The bundle id and the Apple ID of the app. The verifier compares both with documents that contain them.
    public var identity: AppIdentity
    /// The app's products and their entitlements, and the rules for the purchase of the app itself.
    public var catalogue = Catalogue()
    /// Names of further entitlements, which no product in ``catalogue`` grants. The server refuses to check an
    /// entitlement that is neither here nor in the catalogue.
    public var entitlements: Set<String> = []
    /// The customers whose sandbox purchases count if a request names no environment.
    public var sandboxAccess = SandboxAccess.all
    /// Ids of customers, for ``SandboxAccess/listed``. The setter normalizes the ids.
    public var sandboxCustomers: Set<String> = [] {
        didSet { sandboxCustomers = Set(sandboxCustomers.map(\.normalizedCustomerID)) }
    }
    /// The `password` that verifyReceipt requires for receipts with subscriptions; `nil` if no password is required.
    @Hidden public var sharedSecret: String? = nil
    /// Ids of refused purchases. Such a purchase grants no entitlement, and verifyReceipt answers its receipt with
    /// status 21010; see `Catalogue.refuses(_:)`.
    public var refusedPurchases: Set<String> = []
    /// Checks the customer tokens of requests with a client key, the API key that is in the app itself; `nil` if the
    /// app requires no tokens.
    public var customerProof: CustomerProof?
    /// The key for the app's offers and for requests to the App Store; `nil` if the server neither signs for the app
    /// nor sends requests about it.
    public var inAppPurchaseKey: InAppPurchaseKeyFile?
    /// The promotional offers that the server signs for requests with a client key, by product.
    public var clientOffers: [String: Set<String>] = [:]
    /// Default information for answers to consumption requests, by product. Information from the app's backend takes
    /// precedence.
    public var consumption: [String: ConsumptionInformation] = [:]
    /// The retention messages; `nil` if the App Store does not ask this server.
    public var retention: RetentionRules?

    /// Creates the configuration of an app without products.
    public init(_ identity: AppIdentity) {
        self.identity = identity
    }

    /// The catalogue with the refused purchases.
    var ledgerCatalogue: Catalogue {
        var catalogue = catalogue
        catalogue.refusedPurchases.formUnion(refusedPurchases)
        return catalogue
    }
}

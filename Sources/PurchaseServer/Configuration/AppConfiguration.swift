// SPDX-License-Identifier: Apache-2.0

public import AppStoreTrust
public import PurchaseLedger

/// Whose sandbox purchases count in an answer that names no environment.
///
/// App Review and TestFlight buy in the sandbox with the app that is in the App Store, and App Review rejects an app
/// that does not deliver. Everybody who may install the app by TestFlight may then buy there, without paying.
public enum SandboxAccess: String, CaseIterable, Sendable {
    /// Those of all customers.
    case all
    /// Those of the customers in ``AppConfiguration/sandboxCustomers``.
    case listed
    /// Those of no customer.
    case none
}

/// The configuration of one app.
public struct AppConfiguration: Sendable {
    /// The bundle id and the Apple ID that documents of the app must have.
    public var identity: AppIdentity
    /// The app's products and their entitlements.
    public var catalogue = Catalogue()
    /// Names of entitlements that no product gives, besides those of ``catalogue``. A question for any other name is
    /// refused.
    public var entitlements: Set<String> = []
    /// Whether sandbox purchases count in an answer that names no environment.
    public var sandboxAccess = SandboxAccess.all
    /// Ids of customers, for ``SandboxAccess/listed``. They are normalized when they are set.
    public var sandboxCustomers: Set<String> = [] {
        didSet { sandboxCustomers = Set(sandboxCustomers.map(\.normalizedCustomerID)) }
    }
    /// The `password` that verifyReceipt requires for receipts with subscriptions; `nil` if it requires none.
    public var sharedSecret: String?
    /// Ids of purchases that grant nothing, and whose receipts verifyReceipt answers with 21010; see
    /// `Catalogue.refuses(_:)`.
    public var refusedPurchases: Set<String> = []
    /// Checks the customer tokens that requests with a client key need; `nil` if they need none.
    public var customerProof: CustomerProof?
    /// The key that signs the app's offers and its requests to the App Store; `nil` if the server does neither.
    public var inAppPurchaseKey: InAppPurchaseKeyFile?
    /// The promotional offers that a client key may have signed, by product.
    public var clientOffers: [String: Set<String>] = [:]
    /// What is said about a product's purchases in answers to consumption requests, by product, if the app says nothing
    /// else.
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

    /// The longest bundle id that is accepted, in bytes: several times the usual length.
    private static let maxBundleIdBytes = 255

    /// The rule for bundle ids, as an error text.
    package static let bundleIdRule = """
        A bundle id has 1 to \(maxBundleIdBytes) letters (A to Z, a to z), digits, hyphens and periods, such as \
        com.example.notes.
        """

    /// Whether a bundle id follows ``bundleIdRule``. With one that does not, such as one that ends with a space, the
    /// server would refuse all documents of the app.
    package static func isValidBundleId(_ text: String) -> Bool {
        (1...maxBundleIdBytes).contains(text.utf8.count)
            && text.utf8.allSatisfy { $0.isLetterOrDigit || "-.".utf8.contains($0) }
    }
}

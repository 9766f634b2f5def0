// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedger

/// The configuration file of a server: settings as text, and apps.
///
/// ```json
/// {
///     "port": 8080,
///     "apps": [{
///         "bundleId": "com.example.notes", "appAppleId": 1234567890, "sharedSecret": "…", "staleLeewaySeconds": 3600,
///         "products": {
///             "com.example.notes.pro": {"entitlements": ["pro"], "level": 1},
///             "com.example.notes.season": {"entitlements": ["season"], "durationDays": 90}
///         }
///     }]
/// }
/// ```
struct ConfigurationFile {
    /// Settings by name. Commas separate several values.
    private(set) var settings: [String: String] = [:]
    private(set) var apps: [AppConfiguration] = []
    private let root: ConfigurationMember

    /// - Parameter known: The names of all settings.
    /// - Throws: ``ConfigurationError``, which names the invalid member and its line.
    init(parsing text: [UInt8], settings known: [String]) throws(ConfigurationError) {
        root = try ConfigurationMember(parsing: text)
        try root.requireMembers(in: Set(known + ["apps"]))
        for name in known { settings[name] = try root.setting(name) }
        for app in try root.array("apps") {
            let app = try AppConfiguration(app, others: apps)
            apps.append(app)
        }
    }

    /// The line of a setting.
    func line(of name: String) -> Int? { error(name, "").line }

    /// An error about a setting, with its line.
    func error(_ name: String, _ message: String) -> ConfigurationError { root.member(name).error(message) }
}

extension AppConfiguration {
    fileprivate init(_ app: ConfigurationMember, others: [AppConfiguration]) throws(ConfigurationError) {
        try app.requireMembers(in: [
            "bundleId", "appAppleId", "sharedSecret", "staleLeewaySeconds", "products", "refusedPurchases",
            "customerProof",
        ])
        guard let bundleId = try app.string("bundleId") else { throw app.error("bundleId is missing.") }
        guard Self.isValidBundleId(bundleId) else {
            throw app.member("bundleId", .string(bundleId)).error(Self.bundleIdRule)
        }
        guard !others.contains(where: { $0.identity.bundleId == bundleId }) else {
            throw app.error("bundleId \(bundleId) occurs twice.")
        }
        self.init(AppIdentity(bundleId: bundleId, appAppleId: try app.number("appAppleId", in: 1...Int64.max)))
        if let seconds = try app.number("staleLeewaySeconds", in: 0...30 * 86_400) {
            catalogue.staleLeeway = .seconds(seconds)
        }
        for product in try app.members("products") {
            catalogue.products[product.name] = try Catalogue.Product(product)
        }
        sharedSecret = try app.string("sharedSecret")
        refusedPurchases = try app.strings("refusedPurchases", "Expected an original transaction id as a string.")
        customerProof = try app.object("customerProof").map(CustomerProof.init)
    }
}

extension Catalogue.Product {
    fileprivate init(_ product: ConfigurationMember) throws(ConfigurationError) {
        try product.requireMembers(in: ["entitlements", "level", "durationDays"])
        let names = try product.strings("entitlements", "Expected the name of an entitlement.")
        let days = try product.number("durationDays", in: 1...36_500)
        self.init(
            entitlements: names, level: try product.number("level", in: 1...10_000).map(Int.init),
            duration: days.map { .seconds($0 * 86_400) })
    }
}

extension CustomerProof {
    /// No error contains the secret.
    fileprivate init(_ proof: ConfigurationMember) throws(ConfigurationError) {
        try proof.requireMembers(in: ["secret", "publicKey"])
        switch (try proof.string("secret"), try proof.string("publicKey")) {
        case (let secret?, nil):
            guard let made = CustomerProof(secret: secret) else {
                throw proof.member("secret").error(
                    "Expected at least \(CustomerProof.shortestSecret) bytes: openssl rand -hex 32 makes a secret.")
            }
            self = made
        case (nil, let key?):
            guard let made = CustomerProof(publicKey: key) else {
                throw proof.member("publicKey").error("Expected an Ed25519 public key as PEM, or its base64.")
            }
            self = made
        default: throw proof.error("Expected either secret or publicKey.")
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreTrust
import Foundation
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
    /// The settings as text, by name. Commas separate the values of a setting with several values.
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

    /// The apps as text.
    var appsText: String? { root.value["apps"]?.compactText }

    /// The line of a setting.
    func line(of name: String) -> Int? { error(name, "").line }

    /// An error about a setting, with its line.
    func error(_ name: String, _ message: String) -> ConfigurationError { root.member(name).error(message) }
}

extension AppConfiguration {
    /// The names of an app's settings.
    package static let settings: Set = [
        "bundleId", "appAppleId", "sharedSecret", "staleLeewaySeconds", "products", "entitlements",
        "appPurchase", "refusedPurchases", "sandboxAccess", "sandboxCustomers", "customerProof", "inAppPurchaseKey",
        "retention",
    ]

    fileprivate init(_ app: ConfigurationMember, others: [AppConfiguration]) throws(ConfigurationError) {
        try app.requireMembers(in: Self.settings)
        guard let bundleId = try app.string("bundleId", .bundleID) else { throw app.error("bundleId is missing.") }
        guard !others.contains(where: { $0.identity.bundleId == bundleId }) else {
            throw app.error("bundleId \(bundleId) occurs twice.")
        }
        self.init(AppIdentity(bundleId: bundleId, appAppleId: try app.number("appAppleId", in: 1...Int64.max)))
        if let seconds = try app.number("staleLeewaySeconds", in: 0...30 * 86_400) {
            catalogue.staleLeeway = .seconds(seconds)
        }
        // Each change of a catalogue computes its stamp anew.
        var products: [String: Catalogue.Product] = [:]
        for product in try app.members("products") {
            _ = try product.required(product.name, .catalogueName)
            products[product.name] = try Catalogue.Product(product)
            clientOffers[product.name] = try product.strings("clientOffers", "Expected the name of an offer.")
            consumption[product.name] = try product.object("consumption").map(ConsumptionInformation.init)
        }
        catalogue.products = products
        for rule in try app.array("appPurchase") { catalogue.appPurchase.append(try AppPurchaseRule(rule)) }
        sharedSecret = try app.string("sharedSecret")
        entitlements = try app.strings("entitlements", "Expected the name of an entitlement.")
        sandboxAccess = try SandboxAccess(app)
        sandboxCustomers = try app.strings("sandboxCustomers", "Expected the id of a customer.", .customerID)
        refusedPurchases = try app.strings("refusedPurchases", "Expected an original transaction id as a string.")
        customerProof = try app.object("customerProof").map(CustomerProof.init)
        inAppPurchaseKey = try app.object("inAppPurchaseKey").map(InAppPurchaseKeyFile.init)
        retention = try app.object("retention").map(RetentionRules.init)
        try requireWhatRetentionNeeds(app)
    }

    /// Checks the settings that retention messages need: a request of the App Store names its app by the Apple ID
    /// alone, and an offer needs a key.
    private func requireWhatRetentionNeeds(_ app: ConfigurationMember) throws(ConfigurationError) {
        guard let retention else { return }
        guard identity.appAppleId != nil else {
            throw app.member("retention").error("Retention messages need the app's appAppleId.")
        }
        let hasOffer = retention.rules.contains { rule in
            guard case .promotionalOffer = rule.addition else { return false }
            return true
        }
        guard !hasOffer || inAppPurchaseKey != nil else {
            throw app.member("retention").error("A promotionalOffer needs the app's inAppPurchaseKey, to sign it.")
        }
    }
}

extension SandboxAccess {
    /// Reads `sandboxAccess` of an app. The list `sandboxCustomers` has an effect only with `listed`, so the list is an
    /// error with any other value.
    fileprivate init(_ app: ConfigurationMember) throws(ConfigurationError) {
        let text = try app.string("sandboxAccess") ?? Self.all.rawValue
        guard let access = SandboxAccess(rawValue: text) else {
            throw app.member("sandboxAccess").error("Expected one of \(Self.list), found “\(text)”.")
        }
        let isListed = app.value["sandboxCustomers"]?.array?.isEmpty == false
        guard access != .listed || isListed else {
            throw app.member("sandboxAccess").error("With “listed”, sandboxCustomers needs a customer.")
        }
        guard access == .listed || app.value["sandboxCustomers"] == nil else {
            throw app.member("sandboxCustomers").error(
                "The list has an effect only if sandboxAccess is “listed”: set sandboxAccess.")
        }
        self = access
    }
}

extension Catalogue.Product {
    fileprivate init(_ product: ConfigurationMember) throws(ConfigurationError) {
        try product.requireMembers(in: ["entitlements", "level", "durationDays", "clientOffers", "consumption"])
        let names = try product.strings("entitlements", "Expected the name of an entitlement.")
        let days = try product.number("durationDays", in: 1...36_500)
        self.init(
            entitlements: names, level: try product.number("level", in: 1...10_000).map(Int.init),
            duration: days.map { .seconds($0 * 86_400) })
    }
}

extension AppPurchaseRule {
    fileprivate init(_ rule: ConfigurationMember) throws(ConfigurationError) {
        try rule.requireMembers(in: ["beforeVersion", "beforeDate", "platform", "entitlements"])
        let names = try rule.strings("entitlements", "Expected the name of an entitlement.")
        let version = try rule.string("beforeVersion").read(
            as: { AppVersion($0) },
            else: rule.member("beforeVersion").error("Expected numbers with dots between them, such as 2.0."))
        let date = try rule.string("beforeDate").read(
            as: { Timestamp(iso8601: $0) ?? Timestamp(iso8601: $0 + "T00:00:00Z") },
            else: rule.member("beforeDate").error("Expected a date such as 2026-05-01, or 2026-05-01T12:00:00Z."))
        let platform = try rule.word("platform", of: PurchasePlatform.self)
        // Every customer has bought or downloaded the app, so a rule without a condition would give the entitlement to
        // all.
        guard version != nil || date != nil || platform != nil else {
            throw rule.error("Expected a condition: beforeVersion, beforeDate or platform.")
        }
        guard !names.isEmpty else { throw rule.error("entitlements needs a name.") }
        self.init(beforeVersion: version, beforeDate: date, platform: platform, entitlements: names)
    }
}

extension ConsumptionInformation {
    /// The configuration has no member for consent, because only a customer can consent.
    fileprivate init(_ defaults: ConfigurationMember) throws(ConfigurationError) {
        try defaults.requireMembers(in: [
            "deliveryStatus", "sampleContentProvided", "consumptionPercentage", "refundPreference",
        ])
        self.init()
        deliveryStatus = try defaults.word("deliveryStatus", of: DeliveryStatus.self)
        sampleContentProvided = try defaults.flag("sampleContentProvided")
        consumptionPercentage = try defaults.number("consumptionPercentage", in: 0...100_000).map(Int.init)
        refundPreference = try defaults.word("refundPreference", of: RefundPreference.self)
        if let fault = fault(isSubscription: nil) { throw defaults.error(fault) }
    }
}

extension ConfigurationMember {
    /// Reads a word from Apple's vocabulary.
    fileprivate func word<Word: RawRepresentable<String> & CaseIterable & Sendable>(
        _ name: String, of words: Word.Type
    ) throws(ConfigurationError) -> Open<Word>? {
        try string(name).read(
            as: { Word(rawValue: $0).map { Open($0) } }, else: member(name).error("Expected one of \(words.list)."))
    }

    fileprivate func flag(_ name: String) throws(ConfigurationError) -> Bool? {
        try value[name].read(as: \.bool, else: member(name).error("Expected true or false."))
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
                    "Expected at least \(CustomerProof.minSecretBytes) bytes: openssl rand -hex 32 makes a secret.")
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

extension InAppPurchaseKeyFile {
    /// No error contains a value, because a value may be a misplaced secret.
    fileprivate init(_ key: ConfigurationMember) throws(ConfigurationError) {
        try key.requireMembers(in: ["file", "keyId", "issuerId"])
        guard let file = try key.string("file"), let keyId = try key.string("keyId"),
            let issuerId = try key.string("issuerId")
        else { throw key.error("Expected file, keyId and issuerId.") }
        guard InAppPurchaseKey.isID(keyId) else {
            throw key.member("keyId").error("Expected \(InAppPurchaseKey.idRule).")
        }
        guard UUID(uuidString: issuerId) != nil else { throw key.member("issuerId").error("Expected a UUID.") }
        self.init(file: file, keyId: keyId, issuerId: issuerId)
    }
}

extension RetentionRules {
    fileprivate init(_ retention: ConfigurationMember) throws(ConfigurationError) {
        try retention.requireMembers(in: ["defaultMessage", "rules"])
        self.init()
        defaultMessage = try retention.uuid("defaultMessage")
        for rule in try retention.array("rules") { rules.append(try Rule(rule)) }
    }
}

extension RetentionRules.Rule {
    fileprivate init(_ rule: ConfigurationMember) throws(ConfigurationError) {
        try rule.requireMembers(in: [
            "products", "locales", "message", "alternateProduct", "billingPlanType", "promotionalOffer",
        ])
        guard let message = try rule.uuid("message") else { throw rule.error("message is missing.") }
        self.init(message: message, try RetentionRules.Addition(rule))
        products = try rule.strings("products", "Expected a product id.")
        locales = try rule.strings("locales", "Expected a language, such as de or de-CH.")
    }
}

extension RetentionRules.Addition {
    /// `nil` if the rule has neither a product nor an offer.
    fileprivate init?(_ rule: ConfigurationMember) throws(ConfigurationError) {
        let plan = try rule.string("billingPlanType").map(Open<BillingPlanType>.init(rawValue:))
        let product = try rule.string("alternateProduct", .catalogueName)
        switch (product, try rule.string("promotionalOffer", .catalogueName)) {
        case (let product?, nil): self = .alternateProduct(product, billingPlanType: plan)
        case (nil, let offer?) where plan == nil: self = .promotionalOffer(offer)
        case (nil, nil) where plan == nil: return nil
        case (.some, .some): throw rule.error("Expected either alternateProduct or promotionalOffer.")
        default: throw rule.member("billingPlanType").error("A billing plan is for an alternateProduct.")
        }
    }
}

extension ConfigurationMember {
    /// The UUID of a message.
    fileprivate func uuid(_ name: String) throws(ConfigurationError) -> String? {
        try string(name).read(
            as: { UUID(uuidString: $0) == nil ? nil : $0 }, else: member(name).error("Expected a UUID."))
    }
}

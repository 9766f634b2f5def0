// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator

/// The configuration of a Quittance server for a simulated App Store.
struct SimulatedConfiguration {
    /// The path of the ledger.
    var ledger: String
    /// The path of the file with the roots.
    var roots: String
    /// The path of the file with the key of the App Store Server API.
    var keyFile: String
    /// The path of the file from which the secrets of webhooks are derived.
    var webhookSecretFile: String
    var addresses: (control: String, production: String, sandbox: String)
    var store: SimulatedStore
    /// The server's port; `nil` for the default.
    var port: Int?

    /// The entitlement of all products except consumables. A simulator does not know the names of the app's own
    /// entitlements.
    private static let entitlement = "pro"

    /// Receivers of webhooks may be on this machine, where those of a developer are.
    private static let webhookNetworks = ["127.0.0.1", "::1"]

    /// The values of a product's `level` that a server accepts in its configuration.
    private static let levels = 1...10_000

    /// The file's configuration, updated for this simulator. The values that the simulator determines are replaced,
    /// such as addresses, roots and the API key. A missing `database`, the missing settings of webhooks and missing
    /// products are added. All other members stay, because people may have written them.
    ///
    /// - Parameter file: The document in the file; `nil` if there is no file.
    func updating(_ file: JSONValue?) -> JSONValue {
        var root = file ?? .object([])
        if let port { root["port", .set] = .number("\(port)") }
        root["database", .keep] = .string("sqlite:\(ledger)")
        root["webhookSecretFile", .keep] = .string(webhookSecretFile)
        root["webhookNetworks", .keep] = .array(Self.webhookNetworks.map(JSONValue.string))
        root["roots", .set] = .array([.string(roots)])
        root["simulatorClock", .set] = .string(addresses.control)
        root["appStoreServer", .set] = .string(addresses.production)
        root["sandboxAppStoreServer", .set] = .string(addresses.sandbox)
        var apps = root["apps"]?.array ?? []
        let id = JSONValue.string(store.world.catalogue.bundleId)
        let index = apps.firstIndex { $0["bundleId"] == id }
        let app = updated(index.map { apps[$0] } ?? .object([.init("bundleId", id)]))
        if let index { apps[index] = app } else { apps.append(app) }
        root["apps", .set] = .array(apps)
        return root
    }

    /// Reads the configuration of an earlier run.
    ///
    /// - Throws: ``SimulatorFolderError`` if the configuration is not a simulator's. A configuration for Apple's App
    ///   Store must stay unchanged.
    static func read(_ text: [UInt8]) throws(SimulatorFolderError) -> JSONValue {
        let file: JSONValue
        do {
            file = try JSONValue(parsing: text)
        } catch {
            throw SimulatorFolderError("quittance.json is not JSON: \(error.message). Correct or delete it.")
        }
        guard file["simulatorClock"] != nil, file["apps"]?.array != nil else {
            throw SimulatorFolderError("quittance.json is not a simulator's: delete it, or name a different folder.")
        }
        return file
    }

    private func updated(_ app: JSONValue) -> JSONValue {
        var app = app
        let catalogue = store.world.catalogue
        app["appAppleId", .set] = .number("\(catalogue.appAppleId)")
        if let secret = store.sharedSecret { app["sharedSecret", .set] = .string(secret) }
        app["inAppPurchaseKey", .set] = .object([
            .init("file", .string(keyFile)), .init("keyId", .string(store.key.id)),
            .init("issuerId", .string(store.key.issuer)),
        ])
        var products = app["products"] ?? .object([])
        for product in catalogue.products { products[product.id, .keep] = Self.product(product) }
        app["products", .set] = products
        return app
    }

    private static func product(_ product: StoreProduct) -> JSONValue {
        let names = product.type == .consumable ? [] : [JSONValue.string(entitlement)]
        let level = product.plan.flatMap { levels.contains($0.level) ? $0.level : nil }
        return .object(
            [.init("entitlements", .array(names))] + (level.map { [.init("level", .number("\($0)"))] } ?? []))
    }
}

extension JSONValue {
    /// Whether an assignment keeps or replaces an existing member of an object.
    fileprivate enum Presence { case keep, set }

    /// A member of an object. An assignment always appends a missing member. It replaces an existing member, in its
    /// place, only with `set`.
    fileprivate subscript(_ name: String, _ presence: Presence) -> JSONValue? {
        get { self[name] }
        set {
            guard let newValue, var members else { return }
            if let index = members.firstIndex(where: { $0.name == name }) {
                if presence == .set { members[index].value = newValue }
            } else {
                members.append(.init(name, newValue))
            }
            self = .object(members)
        }
    }
}

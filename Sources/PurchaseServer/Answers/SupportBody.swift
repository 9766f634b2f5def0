// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
import AppStoreTrust
package import PurchaseLedger

/// The JSON of `quittance customer show`: the information for a support request.
package struct SupportBody: Encodable, Sendable {
    /// The id by which the customer or the purchase was found.
    var id: String
    var bundleId: String
    /// All ids of the customer; empty for a purchase without a customer.
    var ids: [String]
    /// The environments that count for this customer if a request names no environment.
    var counted: [String]
    /// The attributes of the customer, as in the API.
    var attributes: AttributeList
    /// The API's answer for each environment in which the customer has purchases or grants.
    var environments: [CustomerBody]
    /// The most recently signed documents, newest first, without their bytes.
    var documents: [EvidenceBody]

    /// - Parameters:
    ///   - answers: The customer by environment.
    ///   - counted: See ``LedgerService/countedEnvironments(for:of:)``.
    ///   - attributes: `nil` for a purchase without a customer.
    package init(
        _ id: String, _ answers: [Environment: Ledger.CustomerAnswer], of bundleId: String,
        counted: [Environment], _ attributes: CustomerAttributes?, documents: [StoredDocument], at now: Timestamp
    ) {
        let ids = answers.values.first?.ids ?? []
        self.id = id
        self.bundleId = bundleId
        self.ids = ids
        self.counted = counted.map(\.rawValue)
        self.attributes = AttributeList(attributes)
        environments = answers.sorted { $0.key.rawValue < $1.key.rawValue }.map { environment, answer in
            let rule = EnvironmentRule(
                requested: .one(environment), configured: [], sandboxAccess: .none, sandboxCustomers: [])
            return CustomerBody(ids.first ?? id, [environment: answer], rule, of: bundleId, at: now, for: .server)
        }
        self.documents = documents.map { EvidenceBody($0, withBytes: false) }
    }
}

extension LedgerService {
    /// The environments that count for a customer if a request names no environment, production first.
    ///
    /// - Parameter ids: All ids of the customer.
    package func countedEnvironments(for ids: [String], of bundleId: String) -> [Environment] {
        environmentRule(.unnamed, of: bundleId).counted(for: ids)
    }

    /// The configuration of an app; the defaults if the app is not configured.
    func app(_ bundleId: String) -> AppConfiguration {
        apps[bundleId] ?? AppConfiguration(AppIdentity(bundleId: bundleId))
    }

    /// The names of the entitlements in the configuration of an app: in its products, in its rules for the purchase of
    /// the app itself, or in its list of entitlements.
    package func entitlements(of bundleId: String) -> Set<String> {
        ledger.rules.catalogue(of: bundleId).entitlements.union(app(bundleId).entitlements)
    }

    /// The rule for the environments that count in an answer about customers of an app.
    func environmentRule(_ requested: RequestedEnvironment, of bundleId: String) -> EnvironmentRule {
        EnvironmentRule(
            requested: requested, configured: verifier.environments, sandboxAccess: app(bundleId).sandboxAccess,
            sandboxCustomers: app(bundleId).sandboxCustomers)
    }
}

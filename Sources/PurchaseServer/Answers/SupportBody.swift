// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedger

/// The JSON of what an id names.
struct SupportListBody: Encodable, Sendable {
    /// The customers, and the purchases without a customer, each once.
    var items: [SupportBody]
    /// What has the id itself, in words for people, such as `the customer anna of com.example`.
    var found: [String]
}

/// The JSON of a customer, or of a purchase without a customer, for a support request.
struct SupportBody: Encodable, Sendable {
    /// An id of the customer, or the original transaction id of the purchase.
    var id: String
    /// The app.
    var bundleId: String
    /// The time as of which the answer was computed, in milliseconds since 1970.
    var asOf: Timestamp
    /// All ids of the customer; empty for a purchase without a customer.
    var ids: [String]
    /// The environments that count for this customer if a request names no environment.
    var counted: [String]
    /// The attributes of the customer, by name.
    var attributes: AttributeList
    /// The answer about the customer for each environment in which the customer has purchases or grants.
    var environments: [CustomerBody]
    /// The most recently signed documents, newest first, without their bytes.
    var documents: [EvidenceBody]

    /// - Parameters:
    ///   - attributes: `nil` for a purchase without a customer.
    ///   - stories: The customer by environment.
    init(
        _ id: String, of bundleId: String, _ ids: [String], counted: [Environment], _ attributes: CustomerAttributes?,
        _ stories: [Environment: CustomerStory], documents: [StoredDocument], at now: Timestamp
    ) {
        self.id = id
        self.bundleId = bundleId
        asOf = now
        self.ids = ids
        self.counted = counted.map(\.rawValue)
        self.attributes = AttributeList(attributes)
        environments = stories.sorted { $0.key.rawValue < $1.key.rawValue }.map { environment, story in
            let rule = EnvironmentRule(
                requested: .one(environment), configured: [], sandboxAccess: .none, sandboxCustomers: [])
            var body = CustomerBody(
                ids.first ?? id, [environment: story.answer], rule, of: bundleId, at: now, for: .server)
            body.sentences = story.sentences(at: now)
            body.timeline = story.timeLines.items
            body.timelineOmitted = story.timeLines.omitted == 0 ? nil : story.timeLines.omitted
            return body
        }
        self.documents = documents.map { EvidenceBody($0, withBytes: false) }
    }
}

extension LedgerService {
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

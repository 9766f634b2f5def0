// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The JSON of a page of an app's customers.
struct CustomerListBody: Encodable, Sendable {
    /// The time as of which the entitlements were computed, in milliseconds since 1970.
    var asOf: Timestamp
    /// The customers, in the order of their numbers in the ledger unless the request asks for another.
    var items: [ListedCustomerBody]
    /// The cursor after which the next page begins; absent at the end.
    var nextCursor: String?
    /// The cursor from which the events go on, taken before the first customer was read; on the first page only.
    var eventsCursor: String?
}

/// The JSON of a customer in a list.
struct ListedCustomerBody: Encodable, Sendable {
    /// All ids of the customer.
    var ids: [String]
    /// The active entitlements, at most one per name, in order of the names: those that the answer about the customer
    /// has.
    var entitlements: [EntitlementBody]
    /// What each purchase and each grant gives the customer: the rows with which a follower of the events begins.
    var given: [SourceBody]

    init(_ customer: Ledger.ListedCustomer, _ rule: EnvironmentRule) {
        ids = customer.holdings.ids
        entitlements = CountedHoldings(customer.holdings.environments, rule, ids: ids).entitlements
            .map { EntitlementBody($0.entitlement, in: $0.environment) }
        given = customer.given.map(SourceBody.init)
    }

    /// The JSON of the entitlements that a purchase or a grant gives.
    struct SourceBody: Encodable, Sendable {
        /// The original transaction id of the purchase; absent for a grant.
        var originalTransactionId: String?
        /// The id of the grant; absent for a purchase.
        var grantId: String?
        /// The entitlements: an event about the purchase or grant has them as `entitlementsAfter`.
        var entitlements: [GivenBody]

        init(_ source: Ledger.ListedCustomer.Source) {
            originalTransactionId = source.originalTransactionId
            grantId = source.grantId
            entitlements = (source.entitlements.list ?? []).map(GivenBody.init)
        }
    }

    /// The JSON of an entitlement that a purchase or a grant gives.
    struct GivenBody: Encodable, Sendable {
        /// The name in the configuration.
        var name: String
        /// `subscription`, `billingGrace`, `stale`, `purchase`, `appPurchase` or `grant`.
        var reason: String
        /// `Production`, `Sandbox`, `Xcode` or `LocalTesting`.
        var environment: String
        /// The end, exclusive, in milliseconds since 1970; `null` for no end.
        @Nullable var until: Timestamp?
        /// The subscription group; absent outside groups.
        var subscriptionGroup: String?
        /// The level in the group: 1 is the highest; absent without a level.
        var level: Int?
        /// The transaction that gives the entitlement; absent for a grant, and for a purchase of the app itself.
        var transactionId: String?

        init(_ given: GivenEntitlement) {
            name = given.name
            reason = given.reason.rawValue
            environment = given.environment.rawValue
            until = given.until
            subscriptionGroup = given.subscriptionGroup
            level = given.level
            transactionId = given.transactionId
        }
    }
}

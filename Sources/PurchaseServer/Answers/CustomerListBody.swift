// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The JSON of a page of an app's customers.
struct CustomerListBody: Encodable, Sendable {
    /// The time as of which the entitlements were computed, in milliseconds since 1970.
    var asOf: Timestamp
    /// The customers, in the order of their numbers in the ledger.
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
    /// The active entitlements, as in ``CustomerBody/entitlements``.
    var entitlements: [EntitlementBody]

    init(_ customer: Ledger.CustomerHoldings, _ rule: EnvironmentRule) {
        ids = customer.ids
        entitlements = CountedHoldings(customer.environments, rule, ids: customer.ids).entitlements
            .map { EntitlementBody($0.entitlement, in: $0.environment) }
    }
}

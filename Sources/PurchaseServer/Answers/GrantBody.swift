// SPDX-License-Identifier: Apache-2.0

// The JSON of grants.

package import AppStoreModel
package import PurchaseLedger

/// The JSON of a grant: an entitlement that your own servers gave to a customer.
package struct GrantBody: Encodable, Sendable {
    /// The id of the grant, unique in its app.
    var id: String
    /// The name of the entitlement.
    var entitlement: String
    /// `Production`, `Sandbox`, `Xcode` or `LocalTesting`.
    var environment: String
    /// Whether the customer has the entitlement by this grant now.
    var isActive: Bool
    /// The begin, in milliseconds since 1970.
    var from: Timestamp
    /// The end, exclusive, in milliseconds since 1970; `null` for no end.
    @Nullable var until: Timestamp?
    /// The reason for the grant.
    var why: String
    /// The name of the author; absent if the request had none.
    var by: String?
    /// The id of the API key that made the grant; absent if `quittance grants make` made it.
    var key: String?
    /// The time at which the grant was made, in milliseconds since 1970.
    var madeAt: Timestamp
    /// The time at which the grant ended, in milliseconds since 1970; `null` until it has ended.
    @Nullable var endedAt: Timestamp?
    /// The name of the person or program that ended the grant; absent if it ended at `until`, or the request had no
    /// name.
    var endedBy: String?
    /// The id of the API key that ended the grant; absent if it ended at `until`, or `quittance grants end` ended it.
    var endedByKey: String?
    /// The original transaction id of a subscription for which the customer goes on paying; only in the answer to the
    /// request for a grant.
    var paidSubscription: String?

    package init(_ grant: CustomerGrant, at now: Timestamp, besides subscription: String? = nil) {
        paidSubscription = subscription
        id = grant.id
        entitlement = grant.entitlement
        environment = grant.environment.rawValue
        isActive = grant.isActive(at: now)
        from = grant.from
        until = grant.until
        why = grant.why
        by = grant.author.name
        key = grant.author.keyId
        madeAt = grant.madeAt
        // The end by time counts at once, although the server publishes it some seconds later.
        endedAt = isActive ? nil : grant.end?.date ?? grant.until
        endedBy = grant.end?.author?.name
        endedByKey = grant.end?.author?.keyId
    }
}

/// The JSON of a customer's grants.
package struct GrantListBody: Encodable, Sendable {
    /// The grants in all environments, in the order of their making.
    var items: [GrantBody]

    package init(_ grants: [CustomerGrant], at now: Timestamp) {
        items = grants.map { GrantBody($0, at: now) }
    }
}

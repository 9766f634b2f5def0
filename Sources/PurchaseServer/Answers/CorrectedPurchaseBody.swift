// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The JSON of a corrected purchase.
struct CorrectedPurchaseBody: Encodable, Sendable {
    /// The JSON of an owner of a purchase.
    struct Owner: Encodable, Sendable {
        /// The customer's first id.
        var customer: String
        /// `appAccountToken`, `claim` or `correction`: why the customer owns the purchase.
        var reason: String
    }

    /// The transaction id of the first purchase.
    var originalTransactionId: String
    /// `Production`, `Sandbox`, `Xcode` or `LocalTesting`.
    var environment: String
    /// The owners.
    var owners: [Owner]
    /// The time at which the purchase was denied, in milliseconds since 1970; `null` if it is not denied.
    @Nullable var deniedAt: Timestamp?
    /// The reason of the denial; `null` if the purchase is not denied.
    @Nullable var deniedBecause: String?

    init(_ purchase: CorrectedPurchase) {
        originalTransactionId = purchase.key.originalTransactionId
        environment = purchase.key.scope.environment.rawValue
        owners = purchase.owners.map { Owner(customer: $0.id, reason: $0.reason.rawValue) }
        deniedAt = purchase.denial?.at
        deniedBecause = purchase.denial?.reason
    }
}

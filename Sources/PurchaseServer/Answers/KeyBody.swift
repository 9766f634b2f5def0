// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The JSON of an API key, without its secret.
package struct KeyBody: Encodable, Sendable {
    /// The name that the operator gave the key.
    var name: String
    /// `client`, `read`, `support` or `server`.
    var role: String
    /// The app of the key.
    var bundleId: String
    /// The time from which the key is not valid, in milliseconds since 1970; absent if the key does not expire.
    var expiresAt: Timestamp?
    /// The names of the app's entitlements, which can be given; absent for a client key.
    var entitlements: [String]?

    init(_ key: APIKey, _ entitlements: [String]?) {
        name = key.name
        role = key.role.rawValue
        bundleId = key.bundleId
        expiresAt = key.expiresAt
        self.entitlements = entitlements
    }
}

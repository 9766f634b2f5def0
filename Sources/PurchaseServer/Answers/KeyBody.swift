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

    init(_ key: APIKey) {
        name = key.name
        role = key.role.rawValue
        bundleId = key.bundleId
        expiresAt = key.expiresAt
    }
}

// SPDX-License-Identifier: Apache-2.0

package import PurchaseLedger

/// The keys that may do something. Each operation declares a set, and all other questions about a key's rights ask one.
package typealias Roles = Set<APIKey.Role>

extension Roles {
    /// Keys that a stranger may have taken out of an app. They act for the customer in the path, who proves it if the
    /// app requires that, and see no other customer.
    package static let apps: Roles = [.client]
    /// Keys that may submit what Apple signed.
    package static let submitters: Roles = [.client, .server]
    /// Keys that may do everything.
    package static let backends: Roles = [.server]
    /// Keys that may change what customers have.
    package static let helpers: Roles = [.support, .server]
    /// Keys that may read everything of the app.
    package static let readers: Roles = [.read, .support, .server]
    /// All keys.
    package static let all = Roles(APIKey.Role.allCases)
}

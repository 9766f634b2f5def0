// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Gives ids to new endpoints and to the messages of tests, or to entries of the audit list.
package final class WebhookIDs: Sendable {
    private let prefix: String
    private let count = Atomic<UInt64>(0)

    /// - Parameter seed: A random number, so that no other server, and no server after a restart, gives the same ids.
    ///   The secret of an endpoint follows from its id, so a new endpoint must not get the id of a removed endpoint.
    package init(seed: UInt64) { prefix = String(seed, radix: 36) }

    /// A new id: lower-case letters and digits.
    package func next() -> String {
        prefix + String(count.wrappingAdd(1, ordering: .relaxed).newValue, radix: 36)
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The JSON of `/health/live` and `/health/ready`.
struct HealthBody: Encodable, Sendable {
    /// `live`, `ready`, or `degraded` if a part of the ledger takes no writes.
    var status: String = "ready"
    /// The time of the last accepted notification. Absent in `/health/live`, and if there is no ledger; `null` if no
    /// notification is known.
    var lastNotificationAccepted: Nullable<Timestamp>?
    /// The problems that need the operator's attention, as sentences; absent if there are none.
    var concern: String?
    /// The address of the simulator whose time the server uses; absent if the server uses the machine's time.
    var simulatorClock: String?
}

/// The JSON of `/health/configuration`.
struct ConfigurationBody: Encodable, Sendable {
    /// A digest for each given setting, as `ServerConfiguration.digests(key:)` makes it.
    var digests: [String: String]
}

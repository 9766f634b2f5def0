// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The JSON of `/health/live` and `/health/ready`.
struct HealthBody: Encodable, Sendable {
    /// `live`, `ready`, or `degraded` if a part of the ledger takes no writes.
    var status = "ready"
    /// Absent if there is no ledger; null if no notification is known.
    var lastNotificationAccepted: Nullable<Timestamp>?
    /// What the operator should look at, as sentences; absent for nothing.
    var concern: String?
    /// The address of the simulator that the time comes from; absent if it is the machine's.
    var simulatorClock: String?
}

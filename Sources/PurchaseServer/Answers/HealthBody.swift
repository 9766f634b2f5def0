// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The JSON of `/health/live`.
struct LivenessBody: Encodable, Sendable {
    var status = "live"
}

/// The JSON of `/health/ready`.
struct ReadinessBody: Encodable, Sendable {
    var status = "ready"
    /// Absent if there is no ledger; null if no notification is known.
    var lastNotificationAccepted: Nullable<Timestamp>?
    var concern: String?
}

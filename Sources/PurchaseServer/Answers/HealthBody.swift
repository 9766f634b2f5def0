// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// That the server runs.
struct LivenessBody: Encodable, Sendable {
    var status = "live"
}

/// That requests should come here.
struct ReadinessBody: Encodable, Sendable {
    var status = "ready"
    /// Absent if there is no ledger.
    var lastNotificationAccepted: Nullable<Timestamp>?
    var concern: String?
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// A token for purchases outside the App Store, with the name of its customer and the number of monthly reminders sent
/// so far.
struct ExternalToken: Hashable, Sendable {
    var token: ExternalPurchaseToken
    var customer: String
    var reminders = 0
}

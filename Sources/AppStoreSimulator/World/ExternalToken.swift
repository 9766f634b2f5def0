// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// A token for purchases outside the App Store, with its customer and the number of its reminders.
struct ExternalToken: Hashable, Sendable {
    var token: ExternalPurchaseToken
    var customer: String
    var reminders = 0
}

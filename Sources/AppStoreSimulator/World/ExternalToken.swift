// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// A token for purchases outside the App Store, with what became of it.
struct ExternalToken: Hashable, Sendable {
    var token: ExternalPurchaseToken
    var customer: String
    var reminders = 0
}

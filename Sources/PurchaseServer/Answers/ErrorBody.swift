// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// Why a request is not answered.
struct ErrorBody: Encodable, Sendable {
    var error: Content

    struct Content: Encodable, Sendable {
        var code: String
        var message: String
        var retryable: Bool
        /// With `cursorExpired`: the cursor behind which the events begin that are left.
        var oldest: String?
    }

    init(_ refusal: Refusal) {
        error = Content(
            code: refusal.code, message: refusal.message, retryable: refusal.isRetryable,
            oldest: refusal.oldestCursor?.rawValue)
    }
}

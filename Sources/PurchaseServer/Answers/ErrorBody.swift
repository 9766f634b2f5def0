// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// The JSON of an error.
struct ErrorBody: Encodable, Sendable {
    var error: Content

    struct Content: Encodable, Sendable {
        var code: String
        var message: String
        var retryable: Bool
        /// The cursor after which the remaining events begin; only for the code `cursorExpired`.
        var oldest: String?
    }

    init(_ refusal: Refusal) {
        error = Content(
            code: refusal.code, message: refusal.message, retryable: refusal.isRetryable,
            oldest: refusal.oldestCursor?.rawValue)
    }
}

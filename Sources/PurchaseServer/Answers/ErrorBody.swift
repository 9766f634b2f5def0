// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The JSON of an error.
struct ErrorBody: Encodable, Sendable {
    /// The error.
    var error: Content

    /// The content of an error.
    struct Content: Encodable, Sendable {
        /// The stable code, for programs.
        var code: ErrorCode
        /// A sentence or more for people.
        var message: String
        /// Whether the same request may succeed later.
        var retryable: Bool
        /// The name of the form in which the document was sent, such as `unsignedPayload`; only for the code
        /// `malformed`, and for `invalidRequest` of a body without a notification.
        var form: String?
        /// The cursor after which the remaining events begin; only for the code `cursorExpired`.
        var oldest: String?
        /// Apple's number; only for the code `appStoreRefused`.
        var appStoreCode: Int64?
        /// The time at which to repeat the request, if the App Store named a time.
        var retryAt: Timestamp?
        /// The environment of the document; only for the code `otherEnvironment`.
        var environment: String?
    }

    init(_ refusal: Refusal) {
        error = Content(
            code: refusal.code, message: [refusal.message, refusal.cure].compactMap(\.self).joined(separator: " "),
            retryable: refusal.isRetryable, form: refusal.form, oldest: refusal.oldestCursor?.rawValue,
            appStoreCode: refusal.appStoreCode, retryAt: refusal.retryAt, environment: refusal.environment)
    }

    var json: [UInt8] {
        // Texts, numbers and booleans can always be encoded.
        (try? JSONWriter.bytes(publishing: self)) ?? []
    }
}

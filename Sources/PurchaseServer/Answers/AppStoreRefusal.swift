// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import HTTPTypes
import Logging

// The server's response to a client if Apple's server refused a request or did not answer.

extension Refusal {
    /// The refusal of a client's request because the server's own request to the App Store failed.
    init(_ error: AppStoreAPIError) {
        switch error.code {
        case .noServer, .invalidRequest: self = .invalid(error.message)
        case .refused:
            self.init(
                .appStoreRefused, error.message, status: HTTPResponse.Status(code: error.status ?? 400),
                isRetryable: error.isRetryable)
        case .credentials: self.init(.appStoreCredentials, error.message)
        default: self.init(.appStoreUnavailable, error.message, isRetryable: error.code != .endlessPages)
        }
        appStoreCode = error.errorCode?.rawValue
        retryAt = error.retryAt
    }

    /// The log message for an error: whether Apple refused, did not answer usefully, or got no request at all.
    static func logMessage(_ error: AppStoreAPIError) -> Logger.Message {
        switch error.code {
        case .noServer, .invalidRequest, .overBudget: "The App Store was not asked"
        case .refused, .rateLimited: "The App Store refused a question"
        case .credentials: "The App Store refused the In-App Purchase key"
        case .malformedAnswer, .contradiction, .endlessPages: "The App Store's answer cannot be used"
        case .cancelled: "A question to the App Store was cancelled"
        default: "The App Store did not answer"
        }
    }

    static let noSigningKey = Refusal(
        .noSigningKey, "The server's configuration has no inAppPurchaseKey for the app.")
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import HTTPTypes

// What a client of ours is told if Apple's server refused, or did not answer.

extension Refusal {
    /// The refusal of a request because of Apple's server.
    init(_ error: AppStoreAPIError) {
        switch error.code {
        case .noServer, .invalidRequest: self = .invalid(error.message)
        case .refused:
            self.init(
                status: HTTPResponse.Status(code: error.status ?? 400), code: "appStoreRefused",
                message: error.message, isRetryable: error.isRetryable)
        case .credentials:
            self.init(status: .badGateway, code: "appStoreCredentials", message: error.message)
        default:
            self.init(
                status: .serviceUnavailable, code: "appStoreUnavailable", message: error.message, isRetryable: true)
        }
        appStoreCode = error.errorCode?.rawValue
        retryAt = error.retryAt
    }

    static let noSigningKey = Refusal(
        status: .notFound, code: "noSigningKey",
        message: "The server's configuration has no inAppPurchaseKey for the app.")
}

// SPDX-License-Identifier: Apache-2.0

// The error codes, and the sets of codes that several routes share.

import AppStoreTrust
package import HTTPTypes

/// The stable code of an error. `docs/api.md` has the remedy for each code.
package enum ErrorCode: String, CaseIterable, Encodable, Sendable {
    case badRequest, invalidRequest, methodNotAllowed, refused, tooLarge, timeout, overloaded, `internal`
    case unauthorized, forbidden, customerTokenRequired, customerTokenInvalid, otherCustomer, offerNotAllowed
    case notFound, unknownEntitlement, unknownCustomer, noRetentionMessage, invalidCursor, cursorExpired
    case consumptionClosed, correctionRefused, otherGrant, tooManyGrants, tooManyAttributes
    case webhookURLRefused, tooManyWebhooks, noWebhookSecrets, otherWebhookSecrets
    case storageUnavailable, otherRoots
    case noSigningKey, appStoreRefused, appStoreCredentials, appStoreUnavailable
    case malformed, unsupportedAlgorithm, untrustedChain, certificateExpired, invalidSignature, certificateRevoked
    case revocationUnknown, otherKind, otherPurchase, otherApp, otherEnvironment, unreadable

    /// The usual HTTP status of a response with this code. Three codes have exceptions. The status of `refused` depends
    /// on the reason. `appStoreRefused` has the status of Apple's response. `unreadable` has status 503 for a version 2
    /// notification, so that the App Store repeats the notification.
    package var status: HTTPResponse.Status {
        switch self {
        case .unauthorized, .customerTokenRequired, .customerTokenInvalid: .unauthorized
        case .forbidden, .otherCustomer, .offerNotAllowed: .forbidden
        case .notFound, .unknownEntitlement, .unknownCustomer, .noRetentionMessage, .noSigningKey, .noWebhookSecrets:
            .notFound
        case .methodNotAllowed: .methodNotAllowed
        case .timeout: .requestTimeout
        case .consumptionClosed, .correctionRefused, .otherGrant, .tooManyGrants, .tooManyAttributes, .tooManyWebhooks:
            .conflict
        case .cursorExpired: .gone
        case .tooLarge: .contentTooLarge
        case .internal: .internalServerError
        // No job repeats a request that failed with one of them: 503 would say that this server does it later.
        case .appStoreCredentials, .appStoreUnavailable: .badGateway
        case .overloaded, .storageUnavailable, .otherRoots, .revocationUnknown, .otherWebhookSecrets:
            .serviceUnavailable
        default: .badRequest
        }
    }

    /// The message of ``notFound`` for a path that no route has.
    package static let noRoute = "There is no such route."

    init(_ code: VerificationError.Code) {
        // Every code of the verifier is also a case here, except `otherDevice`: no route names a device, so that error
        // never occurs.
        self = ErrorCode(rawValue: code.rawValue) ?? .internal
    }
}

extension ErrorCode {
    /// The codes of errors that any route may return.
    package static let ofAnyRoute: Set<ErrorCode> = [.badRequest, .refused, .overloaded, .internal]
    /// The additional codes of routes with a request body.
    package static let ofBodies: Set<ErrorCode> = [.tooLarge, .timeout]
    /// The additional codes of routes that require an API key.
    package static let ofKeys: Set<ErrorCode> = [.unauthorized, .forbidden, .invalidRequest, .storageUnavailable]
    /// The additional codes of routes that accept a client key.
    package static let ofCustomerTokens: Set<ErrorCode> = [
        .customerTokenRequired, .customerTokenInvalid, .otherCustomer,
    ]

    /// The additional codes of routes that verify documents.
    package static let ofDocuments: Set<ErrorCode> = Set(VerificationError.Code.allCases.map(ErrorCode.init))
        .subtracting([.internal])
    /// The additional codes of routes that send a request to the App Store.
    package static let ofAppStore: Set<ErrorCode> = [
        .noSigningKey, .appStoreRefused, .appStoreCredentials, .appStoreUnavailable, .otherRoots,
    ]
}

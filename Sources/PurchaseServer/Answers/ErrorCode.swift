// SPDX-License-Identifier: Apache-2.0

// The codes of errors, and those that routes have in common.

import AppStoreTrust
package import HTTPTypes

/// The stable code of an error. `docs/api.md` says what to do about each.
package enum ErrorCode: String, CaseIterable, Encodable, Sendable {
    case badRequest, invalidRequest, methodNotAllowed, refused, tooLarge, timeout, overloaded, `internal`
    case unauthorized, forbidden, customerTokenRequired, customerTokenInvalid, otherCustomer, offerNotAllowed
    case notFound, unknownEntitlement, noRetentionMessage, invalidCursor, cursorExpired, consumptionClosed
    case storageUnavailable, otherRoots
    case noSigningKey, appStoreRefused, appStoreCredentials, appStoreUnavailable
    case malformed, unsupportedAlgorithm, untrustedChain, certificateExpired, invalidSignature, certificateRevoked
    case revocationUnknown, otherKind, otherPurchase, otherApp, otherEnvironment, unreadable

    /// The status of a response with this code, but for: `refused`, whose status says why; `appStoreRefused`, which has
    /// Apple's; and `unreadable`, which is 503 for a notification, so that the App Store repeats it.
    package var status: HTTPResponse.Status {
        switch self {
        case .unauthorized, .customerTokenRequired, .customerTokenInvalid: .unauthorized
        case .forbidden, .otherCustomer, .offerNotAllowed: .forbidden
        case .notFound, .unknownEntitlement, .noRetentionMessage, .noSigningKey: .notFound
        case .methodNotAllowed: .methodNotAllowed
        case .timeout: .requestTimeout
        case .consumptionClosed: .conflict
        case .cursorExpired: .gone
        case .tooLarge: .contentTooLarge
        case .internal: .internalServerError
        case .appStoreCredentials: .badGateway
        case .overloaded, .storageUnavailable, .otherRoots, .appStoreUnavailable, .revocationUnknown:
            .serviceUnavailable
        default: .badRequest
        }
    }

    init(_ code: VerificationError.Code) {
        // Only `otherDevice` is missing: no route names a device.
        self = ErrorCode(rawValue: code.rawValue) ?? .internal
    }
}

extension ErrorCode {
    /// Any request may be refused with these.
    package static let ofAnyRoute: Set<ErrorCode> = [.badRequest, .refused, .overloaded, .internal]
    /// Besides those, a request with a body.
    package static let ofBodies: Set<ErrorCode> = [.tooLarge, .timeout]
    /// Besides those, a request that needs a key.
    package static let ofKeys: Set<ErrorCode> = [.unauthorized, .forbidden, .invalidRequest, .storageUnavailable]
    /// Besides those, a request with a client key.
    package static let ofCustomerTokens: Set<ErrorCode> = [
        .customerTokenRequired, .customerTokenInvalid, .otherCustomer,
    ]

    /// Besides those, a request with a document.
    package static let ofDocuments: Set<ErrorCode> = Set(VerificationError.Code.allCases.map(ErrorCode.init))
        .subtracting([.internal])
    /// Besides those, a request for which the App Store is asked.
    package static let ofAppStore: Set<ErrorCode> = [
        .noSigningKey, .appStoreRefused, .appStoreCredentials, .appStoreUnavailable, .otherRoots,
    ]
}

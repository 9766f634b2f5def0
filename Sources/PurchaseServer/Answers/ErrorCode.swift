// SPDX-License-Identifier: Apache-2.0

// The error codes, and the sets of codes that several routes share.

import AppStoreTrust
package import HTTPTypes

/// The stable code of an error, for programs.
///
/// The comment of a case says what to do about the error. `docs/api.md` and the OpenAPI document repeat it.
package enum ErrorCode: String, CaseIterable, Encodable, Sendable {
    /// Correct the request: the message names the expected form.
    case badRequest, invalidRequest
    /// Use a method in `Allow`.
    case methodNotAllowed
    /// Correct the request: the server does not accept such HTTP (414 and 431: the target or the header is too long;
    /// 415: a compressed body; 417: an expectation other than `100-continue`; 501: an unknown method or transfer
    /// coding; 505: a different HTTP version).
    case refused
    /// Send a shorter body.
    case tooLarge
    /// Retry: the body took too long to arrive.
    case timeout
    /// Retry, after `Retry-After`. With `overloaded` nothing was recorded. A database that did not answer in time may
    /// have recorded the request; a repetition is recorded only once.
    case overloaded, storageUnavailable
    /// Retry, and read the log.
    case `internal`
    /// Send a valid API key of an app in the configuration. Each 401 has `WWW-Authenticate: Bearer realm="quittance"`.
    case unauthorized
    /// Use a key of a role that the message names. If the message says that a newer version made the key, update this
    /// server to that version, or use a different key.
    case forbidden
    /// Send a token for this customer, get a new token, or sign in again ([customer-proof.md](customer-proof.md)). On
    /// the route for signatures `otherCustomer` also means that the offer would not be for the customer in the path.
    case customerTokenRequired, customerTokenInvalid, otherCustomer
    /// Add the offer to `clientOffers`, or ask with a server key ([signing.md](signing.md#client-keys)). If the message
    /// says that the purchase is refused, do nothing: the purchase is [refused](owners.md#refused-purchases).
    case offerNotAllowed
    /// The key's app has nothing with this id in this environment, or there is no such route.
    case notFound
    /// Correct the name: no product of the app, no rule of `appPurchase` and not its list `entitlements` has it
    /// ([configuration](configuration.md)). Except with a client key, the message names the existing entitlements.
    case unknownEntitlement
    /// Correct the id, if the message names a near one, or send `"new": true` to make the customer. Only requests with
    /// `"new": false` have this error, and those that move a purchase without `"new": true`.
    case unknownCustomer
    /// Add a rule or a default message: meanwhile the App Store shows its own default
    /// ([signing.md](signing.md#retention-messages)).
    case noRetentionMessage
    /// The cursor is not of this app's events in this ledger: send the `nextCursor` of the last page as `after`, or
    /// omit `after` to begin. With `periods`: send the `periodsCursor` of the last page, or omit `periods` to begin.
    /// `GET /v1/customers` has cursors of its own.
    case invalidCursor
    /// Events after the cursor were erased (`eventRetentionDays`), or the ledger was restored and lacks the event:
    /// [begin again](feed.md#begin-and-begin-again), or continue with `after` set to the error's `oldest`, see
    /// [Events](feed.md#events).
    case cursorExpired
    /// Do nothing: the consumption request was answered, or its deadline is over.
    case consumptionClosed
    /// Do nothing: the [correction](backend.md#corrections) does not apply, and the message says why. Nothing was
    /// changed.
    case correctionRefused
    /// Read the customer's grants first: your own earlier request may have made one with this `id` and other members.
    /// Only the same members answer 200 with the first grant, also if it has ended. Therefore compute `until` once, and
    /// store it ([Grants](backend.md#grants)).
    case otherGrant
    /// End a grant first: the customer has 20 that have not ended.
    case tooManyGrants
    /// Remove attributes of the customer first: the message names the limit ([Attributes](backend.md#attributes)).
    case tooManyAttributes
    /// Correct the URL of the endpoint: the message says why it is not allowed ([webhooks.md](webhooks.md)).
    case webhookURLRefused
    /// Remove an endpoint first: the app has 20.
    case tooManyWebhooks
    /// Set `webhookSecretFile` in the configuration ([webhooks.md](webhooks.md#endpoints)).
    case noWebhookSecrets
    /// Give this server the secret file of the other servers: the ledger's endpoints have their secrets from a
    /// different `webhookSecretFile`.
    case otherWebhookSecrets
    /// Nothing was recorded: the ledger does not mix these documents with documents of other roots. The operator
    /// decides which roots count ([ledger.md](ledger.md#whose-documents-it-has)).
    case otherRoots
    /// Add `inAppPurchaseKey` to the app in the configuration.
    case noSigningKey
    /// The App Store refused the question: `appStoreCode` is Apple's number, and `retryable` says whether you may ask
    /// again.
    case appStoreRefused
    /// The App Store refused the In-App Purchase key: the log names the values to compare, and the error of the clock.
    case appStoreCredentials
    /// Retry, after `retryAt` (milliseconds) if it is present: the App Store did not answer, contradicted itself, a
    /// proxy answered in its place, the rate limit is used up, or a signer in the answer cannot be checked now. If
    /// `retryable` is false, the customer has more refunds than could be read in time: use a
    /// [backfill](backend.md#backfill).
    case appStoreUnavailable
    /// Discard the document: the App Store did not sign it, or its certificate is no longer trusted. With `malformed` a
    /// submission's error may have a member `form`, the name of the [form](forms.md) of an input without a document.
    case malformed, unsupportedAlgorithm, untrustedChain, certificateExpired, invalidSignature, certificateRevoked
    /// Retry: Apple's OCSP responders did not answer (with `revocation` set to `require`).
    case revocationUnknown
    /// Discard the document: it is genuine, but the route does not accept its kind, or its parts are about different
    /// purchases.
    case otherKind, otherPurchase
    /// The document is genuine: if the app is yours, add the app or the environment to the configuration. The error
    /// names an app only to a client with a key, and only the app of this key. If the Apple ID alone differs, it names
    /// both Apple IDs: correct `appAppleId`. With `otherEnvironment` it has the document's `environment`: send the
    /// request without the parameter `environment`.
    case otherApp, otherEnvironment
    /// The document is genuine: update the server, which cannot read it.
    case unreadable

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

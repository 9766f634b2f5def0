// SPDX-License-Identifier: Apache-2.0

/// The kinds of documents signed by the App Store.
public enum SignedKind: String, CaseIterable, Sendable {
    /// A PKCS#7 app receipt.
    case receipt
    /// A transaction: Apple's `JWSTransaction`.
    case transaction
    /// The next renewal of a subscription: Apple's `JWSRenewalInfo`.
    case renewalInfo
    /// A customer's download of the app: Apple's `JWSAppTransaction`.
    case appTransaction
    /// The `signedPayload` of a version 2 server notification.
    case notification
    /// The `signedPayload` of the App Store's request for a message to a customer who is about to cancel:
    /// ``DecodedRealtimeRequestBody``.
    case retentionRequest
}

extension SignedKind {
    /// The name of the kind with its indefinite article, for messages.
    package var withArticle: String { self == .appTransaction ? "an \(rawValue)" : "a \(rawValue)" }
}

/// A payload of a JWS signed by the App Store. Each type belongs to a single kind.
public protocol SignedPayload: Decodable, Sendable {
    /// The kind.
    static var signedKind: SignedKind { get }
}

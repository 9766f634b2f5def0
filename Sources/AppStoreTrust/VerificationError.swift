// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// Why a signed document was not accepted.
public struct VerificationError: Error, Sendable {
    /// What is wrong with the document. Listed in the order of the checks: the first check that fails is reported.
    ///
    /// One exception: the verifier must read a receipt's payload to see its app. For receipts, `unreadable` therefore
    /// comes before `otherApp`.
    @nonexhaustive
    public enum Code: String, CaseIterable, Sendable {
        /// The bytes do not have the form of the expected document: find out what the client sent.
        case malformed
        /// The document is signed with an algorithm that the App Store does not use: it is from another signer.
        case unsupportedAlgorithm
        /// The signer's certificates lead to no trusted root, or lack Apple's marker OIDs: a forgery, or signed by
        /// Xcode.
        case untrustedChain
        /// A certificate was not valid when the document was signed.
        case certificateExpired
        /// The signature does not match: the document was changed after it was signed, or assembled from parts.
        case invalidSignature
        /// A certificate of the signer was revoked: a thief of its key may have signed this. Checked only
        /// if the verifier checks revocation.
        case certificateRevoked
        /// The revocation status of a certificate is unknown, and the verifier does not accept that: retry later.
        case revocationUnknown
        /// Genuine, but another kind of document than the caller expected: pass it to the method for that kind.
        case otherKind
        /// Genuine, but about an app that the verifier does not accept.
        case otherApp
        /// Genuine, but from an environment that the verifier does not accept.
        case otherEnvironment
        /// Genuine, but this version cannot read it: report it as a bug.
        case unreadable
        /// Genuine, but its parts belong to different purchases.
        case otherPurchase
        /// Genuine, but issued to another device than the caller named.
        case otherDevice
    }

    /// What is wrong, for programs.
    public var code: Code
    /// What is wrong, for people: a sentence with what was expected and what was found. Never contains the document.
    public var message: String
    /// The underlying error, if there is one.
    public var cause: (any Error)?
    /// The app and environment that a genuine document names; `nil` if the verifier refused it before it read them.
    public var origin: Origin?

    /// The app and environment that a document with a valid signature names.
    public struct Origin: Hashable, Sendable {
        /// The app's bundle id, as in the document.
        public var bundleId: String?
        /// The environment as in the document, even if this version does not know it.
        public var environment: String?
    }

    /// Whether the same document may pass later without any change.
    public var isRetryable: Bool { code == .revocationUnknown }

    /// Creates an error. A message of more than `Limits.message` Unicode scalars is cut there and ends with “…”.
    public init(_ code: Code, _ message: String, cause: (any Error)? = nil) {
        self.code = code
        // The message may quote a value from the document, and that may be of any length.
        self.message = message.clipped
        self.cause = cause
    }
}

extension VerificationError {
    /// This error with the app and environment of the document, unless it has them already.
    func from(_ bundleId: String?, _ environment: String?) -> VerificationError {
        var error = self
        error.origin = error.origin ?? Origin(bundleId: bundleId, environment: environment)
        return error
    }
}

extension String {
    /// This text if it has at most `Limits.message` Unicode scalars, otherwise its first ones and “…”. Counts scalars,
    /// not characters: one character may have any number of scalars.
    var clipped: String {
        guard unicodeScalars.count > Limits.message else { return self }
        return String(String.UnicodeScalarView(unicodeScalars.prefix(Limits.message))) + "…"
    }
}

extension VerificationError.Code {
    /// The check that failed.
    public var subject: VerificationCheck.Subject {
        switch self {
        case .malformed: .form
        case .unsupportedAlgorithm: .algorithm
        case .untrustedChain: .chain
        case .certificateExpired: .dates
        case .invalidSignature: .signature
        case .certificateRevoked, .revocationUnknown: .revocation
        case .otherKind: .kind
        case .otherApp: .app
        case .otherEnvironment: .environment
        case .unreadable: .contents
        case .otherPurchase: .purchase
        case .otherDevice: .device
        }
    }
}

extension VerificationError: CustomStringConvertible {
    public var description: String { "\(code.rawValue): \(message)" }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// Why a signed document was not accepted.
public struct VerificationError: Error, Sendable {
    /// The kind of failure. The codes are listed in the order of the checks: the first failed check is reported.
    ///
    /// Some checks run out of this order. The verifier must read a receipt's payload to see its app, so for receipts
    /// `unreadable` comes before `otherApp`. A signer's key of a wrong type is reported only when the signature is
    /// checked. The certificates of a token are decoded after its algorithm was checked, so `unsupportedAlgorithm`
    /// comes before a `malformed` certificate. A notification with several subjects fails with `otherPurchase` before
    /// its app is checked.
    @nonexhaustive
    public enum Code: String, CaseIterable, Sendable {
        /// The bytes do not have the form of the expected document: find out what the client sent.
        case malformed
        /// The document is signed with an algorithm that the App Store does not use, so the signer is not the App
        /// Store.
        case unsupportedAlgorithm
        /// The signer's certificates lead to no trusted root, or lack Apple's marker OIDs: a forgery, or signed by
        /// Xcode.
        case untrustedChain
        /// A certificate was not valid at the signing time.
        case certificateExpired
        /// The signature does not match: the document was changed after signing, or assembled from parts.
        case invalidSignature
        /// A certificate of the signer was revoked: a thief of its key may have signed the document. Checked only if
        /// the verifier checks revocation.
        case certificateRevoked
        /// The revocation status of a certificate is unknown, and the verifier accepts no unknown status: retry later.
        case revocationUnknown
        /// Genuine, but another kind of document than the caller expected: pass the document to the method for its
        /// kind.
        case otherKind
        /// Genuine, but about an app that the verifier does not accept.
        case otherApp
        /// Genuine, but from an environment that the verifier does not accept.
        case otherEnvironment
        /// Genuine, but unreadable for this version: report the failure as a bug.
        case unreadable
        /// Genuine, but its parts belong to different purchases.
        case otherPurchase
        /// Genuine, but issued to a different device than the caller's.
        case otherDevice
    }

    /// The kind of failure, for programs.
    public var code: Code
    /// The failure, for people: a sentence with the expectation and the finding. Never contains the document.
    public var message: String
    /// The underlying error; `nil` if there is none.
    public var cause: (any Error)?
    /// Whether the Apple ID alone differs, of an app that is accepted by its bundle id. Then ``message`` names no other
    /// app, and whoever has the document may read it.
    package var isOtherAppleId = false
    /// The app and environment of a genuine document; `nil` if the verifier refused the document before reading them.
    public var origin: Origin?

    /// The app and environment named by a document with a valid signature.
    public struct Origin: Hashable, Sendable {
        /// The app's bundle id, as in the document; `nil` if the document names none.
        public var bundleId: String?
        /// The environment as in the document, even if this version does not know the environment.
        public var environment: String?
    }

    /// Whether the same document may pass later without any change.
    public var isRetryable: Bool { code == .revocationUnknown }

    /// Creates an error. A message of more than `Limits.message` Unicode scalars is cut to this length, and “…” is
    /// added.
    public init(_ code: Code, _ message: String, cause: (any Error)? = nil) {
        self.code = code
        // The message may quote a value of any length from the document.
        self.message = message.clipped
        self.cause = cause
    }
}

extension VerificationError {
    /// This error with the app and environment of the document, unless the error already has an origin.
    func from(_ bundleId: String?, _ environment: String?) -> VerificationError {
        var error = self
        error.origin = error.origin ?? Origin(bundleId: bundleId, environment: environment)
        return error
    }
}

extension String {
    /// This text if it has at most `Limits.message` Unicode scalars, otherwise its first scalars and “…”. Counts
    /// scalars, not characters, because a character may have any number of scalars.
    var clipped: String {
        guard unicodeScalars.count > Limits.message else { return self }
        return String(String.UnicodeScalarView(unicodeScalars.prefix(Limits.message))) + "…"
    }
}

extension VerificationError.Code {
    /// The subject of the failed check.
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

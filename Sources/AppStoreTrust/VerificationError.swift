// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// Why a signed document was not accepted.
public struct VerificationError: Error, Sendable {
    /// What to do about it. Listed in the order in which it is decided: the first that applies is reported.
    ///
    /// One exception: a receipt's payload must be read to see its app, so for receipts `unreadable` is decided after
    /// `invalidSignature`.
    @nonexhaustive
    public enum Code: String, CaseIterable, Sendable {
        /// The bytes are no document of this form: find out what was really sent.
        case malformed
        /// Signed with an algorithm that the App Store does not use: it is not from there.
        case unsupportedAlgorithm
        /// The signer's certificates do not lead to a trusted root with Apple's marks: forged, or signed by Xcode.
        case untrustedChain
        /// A certificate was not valid when the document was signed.
        case certificateExpired
        /// The signature does not match: the document was changed, or put together.
        case invalidSignature
        /// A certificate of the signer was revoked: whoever signed this, it need not have been the App Store. Decided only
        /// where the verifier checks revocation.
        case certificateRevoked
        /// Nothing is known about the revocation of a certificate, and the verifier does not accept that: try again later.
        case revocationUnknown
        /// Genuine, but a document of another kind than asked for: pass it where it belongs.
        case otherKind
        /// Genuine, but about an app that is not accepted here.
        case otherApp
        /// Genuine, but from an environment that is not accepted here.
        case otherEnvironment
        /// Genuine, but this version cannot read it: report it as a fault.
        case unreadable
        /// Genuine, but put together of parts that belong to different purchases.
        case otherPurchase
        /// Genuine, but not issued to the device that was named.
        case otherDevice
    }

    public var code: Code
    /// A sentence with evidence: what was expected and what was found. Never holds the document itself.
    public var message: String
    /// What a part of the check reported, where there is more than the message.
    public var cause: (any Error)?
    /// The app and environment that a genuine document names; `nil` if it was refused before they were read.
    public var origin: Origin?

    /// What a document says of where it comes from. Its signature is valid.
    public struct Origin: Hashable, Sendable {
        public var bundleId: String?
        /// As it is in the document, also if it is no known environment.
        public var environment: String?
    }

    /// Whether the same document may pass later, with no change on either side.
    public var isRetryable: Bool { code == .revocationUnknown }

    public init(_ code: Code, _ message: String, cause: (any Error)? = nil) {
        self.code = code
        // Evidence may quote a document, which may be of any length.
        self.message = message.utf8.count <= Limits.message ? message : message.clipped
        self.cause = cause
    }
}

extension VerificationError {
    func from(_ bundleId: String?, _ environment: String?) -> VerificationError {
        var error = self
        error.origin = error.origin ?? Origin(bundleId: bundleId, environment: environment)
        return error
    }
}

extension String {
    /// At most as much as a message may have. In Unicode scalars, since a single character may have any number of those.
    var clipped: String { String(String.UnicodeScalarView(unicodeScalars.prefix(Limits.message))) + "…" }
}

extension VerificationError.Code {
    /// What was looked at when this was found.
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

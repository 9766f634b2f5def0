// SPDX-License-Identifier: Apache-2.0

/// A check that a document passed: what the verifier expected, and what it found.
///
/// Checks show people why a document was accepted, or how far the document got before a ``VerificationError``.
public struct VerificationCheck: Hashable, Sendable {
    /// The subjects of checks, in the usual order of the checks.
    @nonexhaustive
    public enum Subject: String, CaseIterable, Sendable {
        /// The document has the expected parts.
        case form
        /// The document is signed with an algorithm that the App Store uses.
        case algorithm
        /// The signer's certificates lead to a trusted root.
        case chain
        /// The signer's certificates were valid at the signing time.
        case dates
        /// The signer signed the document.
        case signature
        /// The signer's certificates are not revoked.
        case revocation
        /// The document is of the expected kind.
        case kind
        /// The document is about an accepted app.
        case app
        /// The document is from an accepted environment.
        case environment
        /// The payload is readable.
        case contents
        /// The parts of the document are about the same purchase.
        case purchase
        /// The document was issued to the device given by the caller.
        case device
    }

    /// The subject of the check.
    public var subject: Subject
    /// The part of the document, such as `data.signedTransactionInfo`; `nil` for the document itself.
    public var part: String?
    /// The verifier's expectation, for people.
    public var expected: String
    /// The verifier's finding, for people.
    public var found: String
}

// SPDX-License-Identifier: Apache-2.0

/// A check that a document passed: what the verifier expected, and what it found.
///
/// It shows people why a document was accepted, or which checks it passed before a ``VerificationError``.
public struct VerificationCheck: Hashable, Sendable {
    /// What the verifier checked, in the order of the checks.
    @nonexhaustive
    public enum Subject: String, CaseIterable, Sendable {
        /// The document has the expected parts.
        case form
        /// The document is signed with an algorithm that the App Store uses.
        case algorithm
        /// The signer's certificates lead to a trusted root.
        case chain
        /// Those certificates were valid when the document was signed.
        case dates
        /// This signer signed this document.
        case signature
        /// The signer's certificates are not revoked.
        case revocation
        /// The document is of the expected kind.
        case kind
        /// The document is about an accepted app.
        case app
        /// The document is from an accepted environment.
        case environment
        /// The payload can be read.
        case contents
        /// The parts of the document are about one purchase.
        case purchase
        /// The document was issued to the device that the caller named.
        case device
    }

    /// What the verifier checked.
    public var subject: Subject
    /// The part of the document, such as `data.signedTransactionInfo`; `nil` for the document itself.
    public var part: String?
    /// What the verifier expected, for people.
    public var expected: String
    /// What it found, for people.
    public var found: String
}

// SPDX-License-Identifier: Apache-2.0

/// One thing that a verifier looked at and found right: what it expected, and what it found.
///
/// For people who want to see why a document was accepted, or how far it came before a ``VerificationError`` ended it.
public struct VerificationCheck: Hashable, Sendable {
    /// What was looked at, in the order in which it is.
    @nonexhaustive
    public enum Subject: String, CaseIterable, Sendable {
        /// The document can be taken apart.
        case form
        /// It is signed with an algorithm that the App Store uses.
        case algorithm
        /// The signer's certificates lead to a trusted root.
        case chain
        /// They were valid when the document was signed.
        case dates
        /// The signature is of this document by this signer.
        case signature
        /// The signer's certificates were not revoked.
        case revocation
        /// It is the kind of document that was asked for.
        case kind
        /// It is about an accepted app.
        case app
        /// It is from an accepted environment.
        case environment
        /// All of it can be read.
        case contents
        /// Its parts are about one purchase.
        case purchase
        /// It was issued to the device that was named.
        case device
    }

    public var subject: Subject
    /// Where in the document, such as `data.signedTransactionInfo`; `nil` for the document itself.
    public var part: String?
    public var expected: String
    public var found: String
}

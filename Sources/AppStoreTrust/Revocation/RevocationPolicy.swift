// SPDX-License-Identifier: Apache-2.0

/// Whether an ``AppStoreVerifier`` checks the certificates of a signer for revocation.
///
/// Check new documents only. Responders drop certificates after they expire, so a responder probably no longer knows
/// the certificates of a document from years ago.
public enum RevocationPolicy: Sendable {
    /// No check, as in Apple's own libraries with online checks turned off.
    case notChecked

    /// Asks the OCSP responders named in the leaf and the intermediate. The verifier asks only after the signature
    /// check, so that only the App Store's own signers can cause a connection.
    ///
    /// If a certificate is revoked, the document is refused with `certificateRevoked`, whatever the document's date,
    /// because a thief of the signer's key can write any date. If a status is unknown, the document is refused with
    /// `revocationUnknown`, unless `acceptsUnknown` is set.
    case checked(by: RevocationChecker, acceptsUnknown: Bool)
}

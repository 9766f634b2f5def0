// SPDX-License-Identifier: Apache-2.0

/// Whether an ``AppStoreVerifier`` checks the certificates of a signer for revocation.
///
/// Check new documents only. Responders drop certificates after they expire, so they probably no longer know the
/// certificates of a document from years ago.
public enum RevocationPolicy: Sendable {
    /// No check: in Apple's own libraries, the mode without online checks.
    case notChecked

    /// Asks the OCSP responders that are named in the leaf and the intermediate. The verifier asks only after it has
    /// checked the signature, so that only the App Store's own signers can make it open a connection.
    ///
    /// Refuses a revoked certificate with `certificateRevoked`, whatever the document's date: a thief of the key can
    /// write any date. Refuses an unknown status with `revocationUnknown`, unless `acceptsUnknown` is set.
    case checked(by: RevocationChecker, acceptsUnknown: Bool)
}

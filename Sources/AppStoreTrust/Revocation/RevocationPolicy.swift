// SPDX-License-Identifier: Apache-2.0

/// Whether an ``AppStoreVerifier`` checks the certificates of a signer for revocation.
///
/// Meant for new documents. Responders drop expired certificates, so those of documents from years ago are probably
/// unknown.
public enum RevocationPolicy: Sendable {
    /// No check. The App Store's own libraries call this offline.
    case notChecked

    /// Asks the responders that leaf and intermediate name. The verifier asks only after it has checked the signature,
    /// so that only the App Store's own signers can make it open a connection.
    ///
    /// Refuses a revoked certificate with `certificateRevoked`, whatever the document's date: a thief of the key can
    /// write any date. Refuses an unknown status with `revocationUnknown`, unless `acceptsUnknown` is set.
    case checked(by: RevocationChecker, acceptsUnknown: Bool)
}

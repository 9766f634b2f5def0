// SPDX-License-Identifier: Apache-2.0

/// Whether an ``AppStoreVerifier`` asks if the certificates of a signer were revoked.
///
/// Meant for documents that are fresh. Responders forget about certificates that have run out, so those of documents from
/// years ago are likely to be unknown.
public enum RevocationPolicy: Sendable {
    /// Nobody is asked. What the App Store's own libraries call offline.
    case notChecked

    /// The responders that leaf and intermediate name are asked, after the signature was found right: nobody but the App
    /// Store's own signers can make us open a connection.
    ///
    /// A certificate that was revoked is refused with `certificateRevoked`, whatever the document's date: who has stolen a
    /// key writes the dates too. One of which nothing is known is refused with `revocationUnknown`, or accepted where
    /// `acceptsUnknown` says so.
    case checked(by: RevocationChecker, acceptsUnknown: Bool)
}

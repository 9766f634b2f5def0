// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The revocation status of a certificate.
public enum RevocationStatus: Hashable, Sendable {
    /// The responder reports no revocation of the certificate: `good` of RFC 6960 section 2.2.
    case good
    /// The issuer revoked the certificate.
    case revoked(at: Timestamp)
    /// There is no valid answer. The value is the reason, a sentence.
    case unknown(String)
}

// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The revocation status of a certificate.
public enum RevocationStatus: Hashable, Sendable {
    /// The issuer knows the certificate and has not revoked it.
    case good
    /// The issuer revoked the certificate.
    case revoked(at: Timestamp)
    /// There is no valid answer; the value is the reason, a sentence.
    case unknown(String)
}

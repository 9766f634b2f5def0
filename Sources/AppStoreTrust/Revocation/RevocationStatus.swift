// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// What is known about the revocation of a certificate.
public enum RevocationStatus: Hashable, Sendable {
    /// The issuer knows the certificate and has not revoked it.
    case good
    /// The issuer took the certificate back.
    case revoked(at: Timestamp)
    /// Nobody said anything that could be believed, and why that is so: a sentence.
    case unknown(String)
}

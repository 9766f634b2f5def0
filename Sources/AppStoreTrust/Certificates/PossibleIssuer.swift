// SPDX-License-Identifier: Apache-2.0

// Rules out impossible and costly chains before any of their signatures is verified. The certificates of a document,
// and their keys, are chosen by an untrusted client, and verifying a single signature with a very large key takes a
// hundred times as long as with one of Apple's keys.

import AppStoreModel
import CryptoExtras
import SwiftASN1
import X509

extension Certificate {
    /// Checks that signatures made with the key are fast to verify. An RSA key must have at most ``Limits/rsaKey`` bits
    /// and the usual exponent, 65537. Elliptic-curve keys always pass.
    func requireUsualKey() throws(VerificationError) {
        guard let key = _RSA.Signing.PublicKey(publicKey), let flaw = key.flaw else { return }
        throw VerificationError(.unsupportedAlgorithm, "The key of “\(commonName)” is RSA \(flaw).")
    }

    var hasUsualKey: Bool { _RSA.Signing.PublicKey(publicKey)?.flaw == nil }

    /// Whether `issuer` may have signed this certificate. Compares the names and, if present in both certificates, the
    /// key identifiers (RFC 5280 section 4.2.1.1). A match is no proof: only the signature is.
    func mayBeIssued(by issuer: Certificate) -> Bool {
        guard self.issuer == issuer.subject else { return false }
        guard let expected = extensions.readable({ try $0.authorityKeyIdentifier })?.keyIdentifier,
            let found = issuer.extensions.readable({ try $0.subjectKeyIdentifier })?.keyIdentifier
        else { return true }
        return expected == found
    }
}

extension _RSA.Signing.PublicKey {
    /// Why signature checks with this key may be slow, worded to follow “RSA” in a message; `nil` if they are fast.
    var flaw: String? {
        guard keySizeInBits <= Limits.rsaKey else {
            return "with \(keySizeInBits) bits, at most \(Limits.rsaKey) count"
        }
        // If the numbers of the key cannot be read, its exponent counts as unusual.
        guard let exponent = try? getKeyPrimitives().publicExponent, exponent.elementsEqual([1, 0, 1])
        else {
            return "with another exponent than 65537"
        }
        return nil
    }
}

extension TrustRoots {
    /// Whether names and key identifiers allow a path from `leaf` through `intermediate` to one of these roots.
    func mayAnchor(_ leaf: Certificate, issuedBy intermediate: Certificate) -> Bool {
        leaf.mayBeIssued(by: intermediate) && authorities.contains { intermediate.mayBeIssued(by: $0) }
    }
}

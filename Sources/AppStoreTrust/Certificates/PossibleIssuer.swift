// SPDX-License-Identifier: Apache-2.0

// Checks a chain before any of its signatures is verified. An untrusted client chooses the certificates of a document
// and their keys. Verifying a signature with a large key takes a hundred times as long as with Apple's keys.

import AppStoreModel
import CryptoExtras
import SwiftASN1
import X509

extension Certificate {
    /// Checks that signatures of the key are fast to verify. An RSA key must have at most ``Limits/rsaKey`` bits and
    /// the usual exponent. Keys on a curve always pass.
    func requireUsualKey() throws(VerificationError) {
        guard let key = _RSA.Signing.PublicKey(publicKey), let flaw = key.flaw else { return }
        throw VerificationError(.unsupportedAlgorithm, "The key of “\(commonName)” is RSA \(flaw).")
    }

    var hasUsualKey: Bool { _RSA.Signing.PublicKey(publicKey)?.flaw == nil }

    /// Whether `issuer` may have signed this certificate. Compares the names and, if present in both certificates, the
    /// key identifiers (RFC 5280 section 4.2.1.1). Only the signature is proof.
    func mayBeIssued(by issuer: Certificate) -> Bool {
        guard self.issuer == issuer.subject else { return false }
        guard let expected = extensions.readable({ try $0.authorityKeyIdentifier })?.keyIdentifier,
            let found = issuer.extensions.readable({ try $0.subjectKeyIdentifier })?.keyIdentifier
        else { return true }
        return expected == found
    }
}

extension _RSA.Signing.PublicKey {
    /// Why signature checks with this key may be slow, as words that follow “RSA”; `nil` if they are fast.
    var flaw: String? {
        guard keySizeInBits <= Limits.rsaKey else {
            return "with \(keySizeInBits) bits, at most \(Limits.rsaKey) count"
        }
        // A key with unreadable numbers does not have the usual exponent.
        guard let exponent = try? getKeyPrimitives().publicExponent, exponent.elementsEqual([1, 0, 1])
        else {
            return "with another exponent than 65537"
        }
        return nil
    }
}

extension TrustRoots {
    /// Whether a path from `leaf` over `intermediate` to one of these roots is possible, by names and key identifiers.
    func mayAnchor(_ leaf: Certificate, issuedBy intermediate: Certificate) -> Bool {
        leaf.mayBeIssued(by: intermediate) && authorities.contains { intermediate.mayBeIssued(by: $0) }
    }
}

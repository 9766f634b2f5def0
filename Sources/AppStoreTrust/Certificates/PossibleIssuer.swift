// SPDX-License-Identifier: Apache-2.0

// What can be told about a chain before any signature in it is checked. A stranger chooses the certificates of a
// document and their keys, and a signature check with a large key takes a hundred times as long as with Apple's.

import AppStoreModel
import CryptoExtras
import SwiftASN1
import X509

extension Certificate {
    /// Checks that the key is none whose signatures take long to check: RSA with at most ``Limits/rsaKey`` bits and the
    /// usual exponent, or a key on a curve.
    func requireUsualKey() throws(VerificationError) {
        guard let key = _RSA.Signing.PublicKey(publicKey), let flaw = key.flaw else { return }
        throw VerificationError(.unsupportedAlgorithm, "The key of “\(commonName)” is RSA \(flaw).")
    }

    var hasUsualKey: Bool { _RSA.Signing.PublicKey(publicKey)?.flaw == nil }

    /// Whether `issuer` may have signed this certificate, by its name and, if both certificates have them, by the key
    /// identifiers (RFC 5280 section 4.2.1.1). Only the signature proves it.
    func mayBeIssued(by issuer: Certificate) -> Bool {
        guard self.issuer == issuer.subject else { return false }
        guard let expected = extensions.readable({ try $0.authorityKeyIdentifier })?.keyIdentifier,
            let found = issuer.extensions.readable({ try $0.subjectKeyIdentifier })?.keyIdentifier
        else { return true }
        return expected == found
    }
}

extension _RSA.Signing.PublicKey {
    /// Why signature checks with this key may take long, to follow “RSA”; `nil` if they do not.
    var flaw: String? {
        guard keySizeInBits <= Limits.rsaKey else {
            return "with \(keySizeInBits) bits, at most \(Limits.rsaKey) count"
        }
        // A key whose numbers cannot be read has no usual exponent.
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

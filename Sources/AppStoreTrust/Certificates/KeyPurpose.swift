// SPDX-License-Identifier: Apache-2.0

import X509

/// What a certificate's key must be permitted to do (RFC 5280 section 4.2.1.3).
///
/// swift-certificates reads the key usage, but its path validation does not compare it with the use.
enum KeyPurpose {
    /// To sign documents: required of a signer.
    case signsDocuments
    /// To sign certificates: required of every certificate above the signer's.
    case signsCertificates
}

extension Certificate.Extensions {
    /// The value of an extension; `nil` if the certificate lacks it or it cannot be read.
    func readable<Value>(_ value: (Self) throws -> Value?) -> Value? {
        // An extension that cannot be read permits no more than one that is missing.
        try? value(self)
    }

    /// Whether the key usage permits `purpose`. A certificate without key usage permits each.
    func permit(_ purpose: KeyPurpose) -> Bool {
        guard self[oid: .X509ExtensionID.keyUsage] != nil else { return true }
        guard let usage = readable({ try $0.keyUsage }) else { return false }
        return switch purpose {
        case .signsDocuments: usage.digitalSignature
        case .signsCertificates: usage.keyCertSign
        }
    }

    /// Checks that the key usage of the certificate called `name` permits `purpose`.
    func require(_ purpose: KeyPurpose, of name: @autoclosure () -> String) throws(VerificationError) {
        guard permit(purpose) else {
            let missing = purpose == .signsDocuments ? "documents (digitalSignature)" : "certificates (keyCertSign)"
            throw VerificationError(
                .untrustedChain, "The key usage of the certificate “\(name())” does not permit it to sign \(missing).")
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import X509

/// A use that a certificate's key must permit (RFC 5280 section 4.2.1.3).
///
/// swift-certificates reads the key usage, but its path validation does not compare the key usage with the actual use.
enum KeyPurpose {
    /// Signing documents: required of a signer.
    case signsDocuments
    /// Signing certificates: required of every certificate above the signer's.
    case signsCertificates
}

extension Certificate.Extensions {
    /// The value of an extension; `nil` if the extension is missing or unreadable.
    func readable<Value>(_ value: (Self) throws -> Value?) -> Value? {
        // An unreadable extension counts as missing here, so that it permits no more than a missing one.
        try? value(self)
    }

    /// Whether the key usage permits `purpose`. A certificate without key usage permits every purpose.
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

// SPDX-License-Identifier: Apache-2.0

// The parts of a certificate that the verifier reads: its DER, its common name and its validity period.

import AppStoreModel
import SwiftASN1
import X509

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The validity period of a certificate: whole seconds, both ends included (RFC 5280 section 4.1.2.5).
struct CertificateValidity: Sendable {
    let from: Timestamp
    let until: Timestamp

    func contains(_ instant: Timestamp) -> Bool {
        instant >= from && instant.milliseconds < until.milliseconds + 1000
    }

    /// Checks that `instant` is in the validity period. The error calls the certificate `name`.
    func require(_ instant: Timestamp, of name: @autoclosure () -> String) throws(VerificationError) {
        guard contains(instant) else {
            throw VerificationError(
                .certificateExpired,
                """
                The certificate “\(name())” is valid from \(from.iso8601) to \(until.iso8601), not at \
                \(instant.iso8601).
                """
            )
        }
    }
}

extension Certificate {
    /// Reads a certificate of a document. The error calls the certificate `name`.
    ///
    /// - Throws: `malformed`.
    init(from der: some Collection<UInt8>, _ name: String) throws(VerificationError) {
        do {
            try self.init(canonical: Array(der))
        } catch {
            throw VerificationError(.malformed, "The \(name) is not an X.509 certificate.", cause: error)
        }
    }

    var validity: CertificateValidity {
        CertificateValidity(from: Timestamp(notValidBefore), until: Timestamp(notValidAfter))
    }

    var der: [UInt8] {
        var serializer = DER.Serializer()
        // Cannot fail: a certificate read from DER keeps its bytes.
        try? serializer.serialize(self)
        return serializer.serializedBytes
    }

    /// The subject's common name, for display only. It is no proof of identity: Apple changes the names of its
    /// certificates, and a forger can copy them.
    var commonName: String { subject.commonName }
}

extension DistinguishedName {
    /// The common name; if there is none, the whole name.
    var commonName: String {
        for name in self {
            for attribute in name where attribute.type == .RDNAttributeType.commonName {
                return String(describing: attribute.value)
            }
        }
        return String(describing: self)
    }
}

extension Timestamp {
    /// A certificate's date. ASN.1 dates end with the year 9999 and always fit. Any other date is clamped.
    fileprivate init(_ date: Date) {
        let milliseconds = (date.timeIntervalSince1970 * 1000).rounded()
        self.init(milliseconds: Int64(exactly: milliseconds) ?? (milliseconds < 0 ? 0 : .max - 1000))
    }
}

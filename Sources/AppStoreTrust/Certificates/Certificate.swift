// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import SwiftASN1
import X509

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// From when to when a certificate is valid, to the second and including both ends (RFC 5280 section 4.1.2.5).
struct CertificateValidity: Sendable {
    let from: Timestamp
    let until: Timestamp

    func require(_ instant: Timestamp, of name: @autoclosure () -> String) throws(VerificationError) {
        guard instant >= from, instant.milliseconds < until.milliseconds + 1000 else {
            throw VerificationError(
                .certificateExpired,
                "The certificate “\(name())” is valid from \(from.iso8601) to \(until.iso8601), not at \(instant.iso8601)."
            )
        }
    }
}

extension Certificate {
    /// Reads a certificate from a document.
    ///
    /// - Throws: `malformed`.
    init(from der: some Collection<UInt8>, _ name: String) throws(VerificationError) {
        do {
            try self.init(canonical: Array(der))
        } catch {
            throw VerificationError(.malformed, "The \(name) is no X.509 certificate.", cause: error)
        }
    }

    var validity: CertificateValidity {
        CertificateValidity(from: Timestamp(notValidBefore), until: Timestamp(notValidAfter))
    }

    var der: [UInt8] {
        var serializer = DER.Serializer()
        // Cannot fail: a certificate is read from its bytes, and keeps them.
        try? serializer.serialize(self)
        return serializer.serializedBytes
    }

    /// The subject's common name, for people only: Apple changes it, and anybody can write it.
    var commonName: String { subject.commonName }
}

extension DistinguishedName {
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
    /// A certificate's date. ASN.1 ends with the year 9999, so it always fits; whatever else there might be is clamped.
    fileprivate init(_ date: Date) {
        let milliseconds = (date.timeIntervalSince1970 * 1000).rounded()
        self.init(milliseconds: Int64(exactly: milliseconds) ?? (milliseconds < 0 ? 0 : .max - 1000))
    }
}

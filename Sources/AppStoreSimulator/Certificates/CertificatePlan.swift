// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
import Foundation
package import SwiftASN1
package import X509

/// The plan of a certificate. Tests can make any part invalid.
package struct CertificatePlan: Sendable {
    package var subject: String
    package var issuer: String
    /// The first second of the certificate's validity.
    package var from: Timestamp
    /// The last second of the certificate's validity.
    package var until: Timestamp
    /// The serial number; random if `nil`.
    package var serialNumber: [UInt8]?
    /// Extensions with the value NULL whose OIDs mark the purpose of the certificate, as in Apple's certificates.
    package var markerOIDs: [ASN1ObjectIdentifier] = []
    /// Critical extensions that no verifier knows, so that verifiers must refuse the certificate.
    package var unknownExtensions: [ASN1ObjectIdentifier] = []
    package var constraints: BasicConstraints
    /// The URL of the OCSP responder in the certificate.
    package var ocspResponder: String?
    /// The permitted use of the certificate's key; `nil` leaves the extension out.
    package var keyUsage: KeyUsage?
    package var key: SigningKey
    /// The public key in the certificate, if it is not that of ``key``; for tests of verifiers.
    package var heldKey: Certificate.PublicKey?
    /// The key that the certificate names as its issuer's, if it is not ``issuerKey``; for tests of verifiers.
    package var namedIssuerKey: Certificate.PublicKey?
    /// The issuer's key, which signs the certificate.
    package var issuerKey: SigningKey

    package init(
        subject: String, issuer: String, from: Timestamp, until: Timestamp, markerOIDs: [ASN1ObjectIdentifier] = [],
        constraints: BasicConstraints, key: SigningKey, issuerKey: SigningKey
    ) {
        self.subject = subject
        self.issuer = issuer
        self.from = from
        self.until = until
        self.markerOIDs = markerOIDs
        self.constraints = constraints
        keyUsage = if case .isCertificateAuthority = constraints { .authority } else { .signer }
        self.key = key
        self.issuerKey = issuerKey
    }

    /// Signs the certificate.
    package func issue() throws -> Certificate {
        try Certificate(
            version: .v3,
            serialNumber: serialNumber.map { .init(bytes: $0) } ?? .init(),
            publicKey: heldKey ?? key.publicKey,
            notValidBefore: Date(from), notValidAfter: Date(until),
            issuer: Self.name(issuer), subject: Self.name(subject),
            signatureAlgorithm: issuerKey.certificateAlgorithm,
            extensions: extensions(),
            issuerPrivateKey: issuerKey.certificateKey)
    }

    private func extensions() throws -> Certificate.Extensions {
        var extensions = try Certificate.Extensions {
            Critical(constraints)
            if let keyUsage { Critical(keyUsage) }
            // OpenSSL's strict checks, which Apple's Python library turns on, refuse certificates without these two
            // extensions.
            SubjectKeyIdentifier(hash: heldKey ?? key.publicKey)
            AuthorityKeyIdentifier(
                keyIdentifier: SubjectKeyIdentifier(hash: namedIssuerKey ?? issuerKey.publicKey).keyIdentifier)
        }
        if let ocspResponder {
            let access = AuthorityInformationAccess.AccessDescription(
                method: .ocspServer, location: .uniformResourceIdentifier(ocspResponder))
            try extensions.append(Certificate.Extension(AuthorityInformationAccess([access]), critical: false))
        }
        for marker in markerOIDs {
            try extensions.append(Certificate.Extension(oid: marker, critical: false, value: [0x05, 0x00]))
        }
        try extensions.append(Certificate.Extension(oid: .simulator, critical: false, value: [0x05, 0x00]))
        for unknown in unknownExtensions {
            try extensions.append(Certificate.Extension(oid: unknown, critical: true, value: [0x05, 0x00]))
        }
        return extensions
    }

    /// A name in Apple's form, with an organization other than Apple.
    private static func name(_ commonName: String) throws -> DistinguishedName {
        try DistinguishedName {
            CommonName(commonName)
            OrganizationName("Quittance Simulator, not Apple")
        }
    }
}

extension KeyUsage {
    /// The key usage of Apple's authorities.
    package static let authority = KeyUsage(keyCertSign: true, cRLSign: true)
    /// The key usage of Apple's signers.
    package static let signer = KeyUsage(digitalSignature: true)
}

extension [UInt8] {
    /// The certificate as DER.
    package init(der certificate: Certificate) throws {
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        self = serializer.serializedBytes
    }
}

extension Date {
    init(_ timestamp: Timestamp) {
        self.init(timeIntervalSince1970: Double(timestamp.milliseconds) / 1000)
    }
}

extension ASN1ObjectIdentifier {
    /// Marks all certificates of simulated App Stores, so that no reader takes them for Apple's.
    ///
    /// OIDs under the arc 2.25 need no registration (ITU-T X.667). According to X.667, the number after the arc is a
    /// UUID of 128 bits. This number has only 62 bits, because swift-asn1 refuses numbers of more than 63 bits, and
    /// Apple's Swift library reads certificates with swift-asn1.
    package static let simulator: Self = [2, 25, 3_294_784_015_283_160_907]
    /// Marks the certificates that sign app receipts and tokens (compact JWS, such as signed transactions).
    package static let appStoreReceiptSigning: Self = [1, 2, 840, 113635, 100, 6, 11, 1]
    /// Marks the intermediates of Apple Worldwide Developer Relations, which issue the certificates with the mark
    /// ``appStoreReceiptSigning``.
    package static let worldwideDeveloperRelations: Self = [1, 2, 840, 113635, 100, 6, 2, 1]
    /// Marks the certificates that signed version 2 transaction receipts.
    package static let purchaseReceiptSigning: Self = [1, 2, 840, 113635, 100, 6, 5, 1]
    /// Marks the intermediate that issued the certificates with the mark ``purchaseReceiptSigning``.
    package static let iTunesStoreAuthority: Self = [1, 2, 840, 113635, 100, 6, 2, 2]
    /// Marks an intermediate of Apple's that issues developers' own certificates.
    package static let worldwideDeveloperRelationsG2: Self = [1, 2, 840, 113635, 100, 6, 2, 15]
}

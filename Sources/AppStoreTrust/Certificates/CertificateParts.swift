// SPDX-License-Identifier: Apache-2.0

import SwiftASN1
import X509

/// The three parts of a certificate (RFC 5280 section 4.1), in the one form in which its issuer wrote them.
///
/// The issuer signs only the first part. If the rest could be written in several ways, anybody could make any number of
/// certificates from each of Apple's. The second form of an ECDSA signature remains; receipts' certificates have RSA.
struct CertificateParts {
    /// `tbsCertificate`: what the issuer signs.
    let signed: ASN1Node
    /// `signatureAlgorithm`, which has the bytes of the algorithm inside of `signed` (RFC 5280 section 4.1.1.2).
    let algorithm: ASN1Node
    /// `signatureValue`, a whole number of bytes.
    let signature: ArraySlice<UInt8>

    /// - Parameter certificate: Read as DER, so that lengths and numbers have one form.
    init(_ certificate: ASN1Node) throws {
        self = try DER.sequence(certificate, identifier: .sequence) { nodes in
            guard let signed = nodes.next(), let algorithm = nodes.next() else {
                throw CertificateFormError.missingPart
            }
            let signature = try ASN1BitString(derEncoded: &nodes)
            guard try Self.algorithm(in: signed).encodedBytes == algorithm.encodedBytes else {
                throw CertificateFormError.otherAlgorithm
            }
            guard signature.paddingBits == 0 else { throw CertificateFormError.unusedBits }
            return Self(signed: signed, algorithm: algorithm, signature: signature.bytes)
        }
    }

    private init(signed: ASN1Node, algorithm: ASN1Node, signature: ArraySlice<UInt8>) {
        (self.signed, self.algorithm, self.signature) = (signed, algorithm, signature)
    }

    /// `signature`, which stands behind the version, if there is one, and the serial number.
    private static func algorithm(in signed: ASN1Node) throws -> ASN1Node {
        guard case .constructed(let nodes) = signed.content else { throw CertificateFormError.missingPart }
        var fields = nodes.makeIterator()
        let version = ASN1Identifier(tagWithNumber: 0, tagClass: .contextSpecific)
        if fields.next()?.identifier == version { _ = fields.next() }
        guard let algorithm = fields.next() else { throw CertificateFormError.missingPart }
        return algorithm
    }
}

/// Why a certificate has not the form in which its issuer wrote it.
enum CertificateFormError: Error {
    case missingPart
    /// The algorithm outside of what is signed is another than the one inside.
    case otherAlgorithm
    /// The signature ends within a byte.
    case unusedBits
}

extension Certificate {
    /// Reads a certificate that a document brings along; see ``CertificateParts``.
    init(canonical der: [UInt8]) throws {
        let root = try DER.parse(der)
        _ = try CertificateParts(root)
        try self.init(derEncoded: root)
    }
}

// SPDX-License-Identifier: Apache-2.0

import SwiftASN1
import X509

/// The three parts of a certificate (RFC 5280 section 4.1). Only the encoding made by the issuer is accepted.
///
/// The issuer signs only the first part. If several encodings of the second and third parts were accepted, a forger
/// could turn one of Apple's certificates into many different ones, all of them valid. A gap remains: anyone can
/// compute a second valid ECDSA signature from the first. Genuine receipts are not affected, because their certificates
/// are signed with RSA.
struct CertificateParts {
    /// `tbsCertificate`, signed by the issuer.
    let signed: ASN1Node
    /// `signatureAlgorithm`: the same bytes as the algorithm in `signed` (RFC 5280 section 4.1.1.2).
    let algorithm: ASN1Node
    /// `signatureValue`, a whole number of bytes.
    let signature: ArraySlice<UInt8>
}

extension CertificateParts {
    /// Reads the parts of a certificate.
    ///
    /// - Parameter certificate: Parsed as DER, so each length and number has a unique encoding.
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

    /// The algorithm inside the signed part, called `signature` in RFC 5280. The algorithm follows the optional version
    /// and the serial number.
    private static func algorithm(in signed: ASN1Node) throws -> ASN1Node {
        guard case .constructed(let nodes) = signed.content else { throw CertificateFormError.missingPart }
        var fields = nodes.makeIterator()
        let version = ASN1Identifier(tagWithNumber: 0, tagClass: .contextSpecific)
        if fields.next()?.identifier == version { _ = fields.next() }
        guard let algorithm = fields.next() else { throw CertificateFormError.missingPart }
        return algorithm
    }
}

/// Why a certificate is not in the issuer's encoding.
enum CertificateFormError: Error {
    /// A part is missing.
    case missingPart
    /// The algorithm beside the signed part differs from the algorithm inside the signed part.
    case otherAlgorithm
    /// The signature is not a whole number of bytes.
    case unusedBits
}

extension Certificate {
    /// Reads a certificate of a document; see ``CertificateParts``.
    init(canonical der: [UInt8]) throws {
        let root = try DER.parse(der)
        _ = try CertificateParts(root)
        try self.init(derEncoded: root)
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreSimulator
import Crypto
import ReceiptCoding
import SwiftASN1

/// A certificate in its three parts. The issuer signed only the first: the other two can be changed without its key.
public struct CertificateRewriting {
    /// `tbsCertificate`, with its header.
    var signed: [UInt8]
    /// `signatureAlgorithm`, with its header.
    var algorithm: [UInt8]
    /// The contents of `signatureValue`: a count of unused bits, and the signature.
    var signature: [UInt8]

    init(_ certificate: [UInt8]) throws {
        self = try DER.sequence(try DER.parse(certificate), identifier: .sequence) { nodes in
            guard let signed = nodes.next(), let algorithm = nodes.next() else {
                throw VectorError(description: "A certificate without its three parts")
            }
            let signature = try ASN1BitString(derEncoded: &nodes)
            return Self(
                signed: Array(signed.encodedBytes), algorithm: Array(algorithm.encodedBytes),
                signature: [UInt8(signature.paddingBits)] + signature.bytes)
        }
    }

    private init(signed: [UInt8], algorithm: [UInt8], signature: [UInt8]) {
        (self.signed, self.algorithm, self.signature) = (signed, algorithm, signature)
    }

    var encoded: [UInt8] { DEREncoding.sequence(signed, algorithm, DEREncoding.element(0x03, signature)) }

    // MARK: Changes that need no key

    /// The certificate without the NULL parameters of its RSA algorithm.
    public static func withoutParameters(_ certificate: [UInt8]) throws -> [UInt8] {
        var parts = try Self(certificate)
        parts.algorithm = DEREncoding.sequence(Array(parts.algorithm.dropFirst(2).dropLast(2)))
        return parts.encoded
    }

    /// The certificate with the last bit of its signature declared unused. That bit must be zero, as it is in half of
    /// all signatures.
    public static func withUnusedBit(_ certificate: [UInt8]) throws -> [UInt8] {
        var parts = try Self(certificate)
        parts.signature[0] = 1
        return parts.encoded
    }

    /// The certificate with its length encoded in one byte more than needed.
    public static func withLongLength(_ certificate: [UInt8]) -> [UInt8] {
        [0x30, 0x83, 0x00] + certificate.dropFirst(2)
    }

    /// The certificate with the second valid ECDSA signature of the same P-384 key, in which s is the curve's order
    /// minus s.
    public static func withOtherSignature(_ certificate: [UInt8]) throws -> [UInt8] {
        var parts = try Self(certificate)
        let signature = try P384.Signing.ECDSASignature(derRepresentation: parts.signature.dropFirst())
        let raw = Array(signature.rawRepresentation)
        let other = try P384.Signing.ECDSASignature(
            rawRepresentation: raw.prefix(48) + orderOfP384.subtracting(Array(raw.suffix(48))))
        parts.signature = [0] + other.derRepresentation
        return parts.encoded
    }

    /// The order of the curve P-384 (FIPS 186-5, SP 800-186 section 3.2.1.4).
    private static let orderOfP384: [UInt8] =
        [UInt8](repeating: 0xff, count: 24) + [
            0xc7, 0x63, 0x4d, 0x81, 0xf4, 0x37, 0x2d, 0xdf, 0x58, 0x1a, 0x0d, 0xb2, 0x48, 0xb0, 0xa7, 0x7a, 0xec, 0xec,
            0x19, 0x6a, 0xcc, 0xc5, 0x29, 0x73,
        ]

    // MARK: Changes that need the issuer's key

    /// The certificate with another algorithm in its signed part, signed again.
    static func signed(
        _ certificate: [UInt8], replacing algorithm: [UInt8], with other: [UInt8], by issuer: SigningKey
    ) throws -> [UInt8] {
        var parts = try Self(certificate)
        parts.signed = parts.signed.replacingFirst(algorithm, with: other)
        switch issuer {
        case .p384(let key): parts.signature = [0] + (try key.signature(for: parts.signed)).derRepresentation
        case .rsa: parts.signature = [0] + (try issuer.rsa(SHA256.hash(data: parts.signed)))
        case .p256: throw VectorError(description: "No authority has a key on P-256")
        }
        return parts.encoded
    }
}

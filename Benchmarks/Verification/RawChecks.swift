// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Crypto
import CryptoExtras
import Foundation
import ReceiptCoding
import X509

// The signature checks that a verification cannot avoid, and nothing else. They include hashing the signed bytes.

struct InvalidSignature: Error {}

/// A receipt's RSA signature over its payload.
struct RawReceipt: Sendable {
    private let key: _RSA.Signing.PublicKey
    private let signature: _RSA.Signing.RSASignature
    private let payload: [UInt8]
    private let isSHA1: Bool

    init(_ bytes: [UInt8]) throws {
        let container = try SignedReceipt(decoding: bytes)
        guard let leaf = container.certificates.first,
            let key = _RSA.Signing.PublicKey(try Certificate(derEncoded: Array(leaf)).publicKey)
        else { throw InvalidSignature() }
        self.key = key
        signature = .init(rawRepresentation: container.signer.signature)
        payload = Array(container.payload)
        isSHA1 = container.signer.digestAlgorithm == .sha1
    }

    func check() throws {
        let isValid =
            isSHA1
            ? key.isValidSignature(signature, for: Insecure.SHA1.hash(data: payload), padding: .insecurePKCS1v1_5)
            : key.isValidSignature(signature, for: SHA256.hash(data: payload), padding: .insecurePKCS1v1_5)
        guard isValid else { throw InvalidSignature() }
    }
}

/// A token's P-256 signature, and the two P-384 signatures of its chain.
struct RawToken: Sendable {
    private let key: P256.Signing.PublicKey
    private let signature: P256.Signing.ECDSASignature
    private let input: [UInt8]
    private let chain: [RawCertificate]

    init(_ bytes: [UInt8]) throws {
        let jws = try JWS(bytes)
        let certificates = try jws.header().x5c.map {
            try Certificate(derEncoded: Array(Data(base64Encoded: $0) ?? Data()))
        }
        guard certificates.count == 3, let key = P256.Signing.PublicKey(certificates[0].publicKey) else {
            throw InvalidSignature()
        }
        self.key = key
        signature = try .init(rawRepresentation: jws.signature)
        input = Array(jws.signingInput)
        chain = try zip(certificates, certificates.dropFirst()).map { try RawCertificate($0, issuedBy: $1) }
    }

    func check() throws {
        guard key.isValidSignature(signature, for: SHA256.hash(data: input)) else { throw InvalidSignature() }
    }

    func checkChain() throws {
        for certificate in chain { try certificate.check() }
    }
}

/// A certificate's P-384 signature.
private struct RawCertificate: Sendable {
    private let key: P384.Signing.PublicKey
    private let signature: P384.Signing.ECDSASignature
    private let input: [UInt8]

    init(_ certificate: Certificate, issuedBy issuer: Certificate) throws {
        guard let key = P384.Signing.PublicKey(issuer.publicKey) else { throw InvalidSignature() }
        self.key = key
        signature = try .init(derRepresentation: certificate.signature.rawRepresentation)
        input = Array(certificate.tbsCertificateBytes)
    }

    func check() throws {
        guard key.isValidSignature(signature, for: SHA384.hash(data: input)) else { throw InvalidSignature() }
    }
}

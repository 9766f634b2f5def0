// SPDX-License-Identifier: Apache-2.0

import Crypto
import SwiftASN1
import X509

/// The identifier of a certificate in OCSP: `CertID` of RFC 6960 section 4.1.1.
///
/// The identifier uses SHA-1, because all responders support SHA-1, and answers that a responder has signed in advance,
/// for all who may ask, identify their certificates by SHA-1 (RFC 5019 section 2.1.1). The hash only identifies the
/// certificate: trust comes from the signature on the answer.
struct OCSPCertificateID: Hashable, Sendable {
    let hashAlgorithm: ASN1ObjectIdentifier
    let issuerNameHash: ArraySlice<UInt8>
    let issuerKeyHash: ArraySlice<UInt8>
    let serialNumber: Certificate.SerialNumber
}

extension OCSPCertificateID {
    private static let sha1: ASN1ObjectIdentifier = [1, 3, 14, 3, 2, 26]

    /// Creates the identifier of a certificate, with SHA-1.
    init(of certificate: Certificate, issuedBy issuer: Certificate) throws {
        var name = DER.Serializer()
        try name.serialize(certificate.issuer)
        self.init(
            hashAlgorithm: Self.sha1,
            issuerNameHash: ArraySlice(Insecure.SHA1.hash(data: name.serializedBytes)),
            issuerKeyHash: issuer.publicKey.sha1, serialNumber: certificate.serialNumber)
    }

    /// Reads a `CertID`.
    init(_ node: ASN1Node) throws {
        self = try DER.sequence(node, identifier: .sequence) { nodes in
            Self(
                hashAlgorithm: try nodes.algorithm(), issuerNameHash: try ASN1OctetString(derEncoded: &nodes).bytes,
                issuerKeyHash: try ASN1OctetString(derEncoded: &nodes).bytes,
                serialNumber: Certificate.SerialNumber(bytes: try ArraySlice<UInt8>(derEncoded: &nodes)))
        }
    }

    /// The DER of an `OCSPRequest` for this certificate, unsigned and without extensions.
    ///
    /// A nonce, a random number to be repeated in the answer, would exclude answers signed in advance (RFC 5019 section
    /// 2.1.1). The dates of an answer limit its age instead.
    func request() throws -> [UInt8] {
        var serializer = DER.Serializer()
        // OCSPRequest, TBSRequest, requestList, Request: each contains only the next.
        try serializer.appendConstructedNode(identifier: .sequence) { coder in
            try coder.appendConstructedNode(identifier: .sequence) { coder in
                try coder.appendConstructedNode(identifier: .sequence) { coder in
                    try coder.appendConstructedNode(identifier: .sequence, encode)
                }
            }
        }
        return serializer.serializedBytes
    }

    private func encode(into coder: inout DER.Serializer) throws {
        try coder.appendConstructedNode(identifier: .sequence) { coder in
            try coder.appendConstructedNode(identifier: .sequence) { coder in
                try coder.serialize(hashAlgorithm)
                try coder.serialize(ASN1Null())
            }
            try coder.serialize(ASN1OctetString(contentBytes: issuerNameHash))
            try coder.serialize(ASN1OctetString(contentBytes: issuerKeyHash))
            try coder.serialize(serialNumber.bytes)
        }
    }
}

extension Certificate.PublicKey {
    /// SHA-1 of the bits of the key. OCSP identifies keys by this hash.
    var sha1: ArraySlice<UInt8> { ArraySlice(Insecure.SHA1.hash(data: subjectPublicKeyInfoBytes)) }
}

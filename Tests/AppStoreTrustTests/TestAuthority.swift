// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Crypto
import Foundation
import SwiftASN1
import X509

/// A certificate authority shaped like Apple's, whose every part can be got wrong.
struct TestAuthority {
    static let day: TimeInterval = 86_400
    static let issued = Date(timeIntervalSince1970: 1_700_000_000)

    let rootKey = P384.Signing.PrivateKey()
    let intermediateKey = P384.Signing.PrivateKey()
    let leafKey = P256.Signing.PrivateKey()
    let root: Certificate

    init() throws {
        root = try Self.certificate(
            "Test Root", by: "Test Root", key: .init(rootKey.publicKey), signedWith: .init(rootKey),
            extensions: Certificate.Extensions { Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil)) }
        )
    }

    var roots: TrustRoots {
        get throws {
            var serializer = DER.Serializer()
            try serializer.serialize(root)
            return try TrustRoots(reading: serializer.serializedBytes)
        }
    }

    func intermediate(
        marked: Bool = true, isAuthority: Bool = true, until: Date = issued + 3650 * day, responder: String? = nil
    ) throws -> Certificate {
        try Self.certificate(
            "Test Intermediate", by: "Test Root", key: .init(intermediateKey.publicKey), signedWith: .init(rootKey),
            until: until,
            extensions: Self.extensions(
                isAuthority ? .isCertificateAuthority(maxPathLength: 0) : .notCertificateAuthority,
                mark: marked ? [1, 2, 840, 113635, 100, 6, 2, 1] : nil, responder: responder))
    }

    func leaf(
        marked: Bool = true, from: Date = issued, until: Date = issued + 365 * day, key: Certificate.PublicKey? = nil,
        serialNumber: Certificate.SerialNumber = .init(), responder: String? = nil
    ) throws -> Certificate {
        try Self.certificate(
            "Test Leaf", by: "Test Intermediate", key: key ?? .init(leafKey.publicKey),
            signedWith: .init(intermediateKey),
            from: from, until: until, serialNumber: serialNumber,
            extensions: Self.extensions(
                .notCertificateAuthority, mark: marked ? [1, 2, 840, 113635, 100, 6, 11, 1] : nil,
                responder: responder))
    }

    /// A compact JWS. `chain` is leaf first, and by default as the App Store would have it.
    func sign(
        _ payload: String, chain: [Certificate]? = nil, alg: String = "ES256",
        signature: ((Data) throws -> Data)? = nil
    ) throws -> [UInt8] {
        let chain = try chain ?? [leaf(), intermediate(), root]
        let x5c = try chain.map { certificate in
            var serializer = DER.Serializer()
            try serializer.serialize(certificate)
            return "\"\(Data(serializer.serializedBytes).base64EncodedString())\""
        }
        let header = #"{"alg":"\#(alg)","x5c":[\#(x5c.joined(separator: ","))]}"#
        let input = Self.base64URL(Data(header.utf8)) + "." + Self.base64URL(Data(payload.utf8))
        let sign = signature ?? { try leafKey.signature(for: $0).rawRepresentation }
        return Array((input + "." + Self.base64URL(try sign(Data(input.utf8)))).utf8)
    }

    static func base64URL(_ data: Data) -> String {
        data.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    private static func extensions(
        _ constraints: BasicConstraints, mark: ASN1ObjectIdentifier?, responder: String?
    ) throws -> Certificate.Extensions {
        var extensions = try Certificate.Extensions { Critical(constraints) }
        if let mark { try extensions.append(Certificate.Extension(oid: mark, critical: false, value: [0x05, 0x00])) }
        if let responder {
            let access = AuthorityInformationAccess([
                .init(method: .ocspServer, location: .uniformResourceIdentifier(responder))
            ])
            try extensions.append(Certificate.Extension(access, critical: false))
        }
        return extensions
    }

    private static func certificate(
        _ subject: String, by issuer: String, key: Certificate.PublicKey, signedWith: Certificate.PrivateKey,
        from: Date = issued - 10 * day, until: Date = issued + 3650 * day,
        serialNumber: Certificate.SerialNumber = .init(), extensions: Certificate.Extensions
    ) throws -> Certificate {
        try Certificate(
            version: .v3, serialNumber: serialNumber, publicKey: key, notValidBefore: from, notValidAfter: until,
            issuer: DistinguishedName { CommonName(issuer) }, subject: DistinguishedName { CommonName(subject) },
            signatureAlgorithm: .ecdsaWithSHA384, extensions: extensions, issuerPrivateKey: signedWith)
    }
}

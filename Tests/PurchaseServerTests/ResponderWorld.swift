// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Crypto
import Foundation
import SwiftASN1
import X509

/// An authority shaped like Apple's, whose certificates are on file for OpenSSL and valid today.
struct ResponderWorld {
    /// Of what an index says about a certificate.
    enum Entry: String {
        case valid = "V\t491231235959Z\t\t"
        case revoked = "R\t491231235959Z\t250102030405Z,keyCompromise\t"
    }

    static let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))

    let folder: TemporaryFolder
    let rootKey = P384.Signing.PrivateKey()
    let intermediateKey = P384.Signing.PrivateKey()
    let leafKey = P256.Signing.PrivateKey()
    let delegateKey = P256.Signing.PrivateKey()
    let root: Certificate

    /// What the certificates will be called, before there are any.
    let intermediateSerial = Certificate.SerialNumber(0x1001)
    let leafSerial = Certificate.SerialNumber(0x2002)

    init() throws {
        folder = try TemporaryFolder()
        root = try Self.certificate(
            "Test Root", by: "Test Root", .init(rootKey.publicKey), signedWith: rootKey,
            Certificate.Extensions { Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil)) })
    }

    func intermediate(responder: String) throws -> Certificate {
        try Self.certificate(
            "Test Intermediate", by: "Test Root", .init(intermediateKey.publicKey), signedWith: rootKey,
            serialNumber: intermediateSerial,
            Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
                Certificate.Extension(oid: [1, 2, 840, 113635, 100, 6, 2, 1], critical: false, value: [0x05, 0x00])
                Self.access(responder)
            })
    }

    func leaf(responder: String) throws -> Certificate {
        try Self.certificate(
            "Test Leaf", by: "Test Intermediate", .init(leafKey.publicKey), signedWith: intermediateKey,
            serialNumber: leafSerial,
            Certificate.Extensions {
                Critical(BasicConstraints.notCertificateAuthority)
                Certificate.Extension(oid: [1, 2, 840, 113635, 100, 6, 11, 1], critical: false, value: [0x05, 0x00])
                Self.access(responder)
            })
    }

    /// The certificate of a responder whom the intermediate appointed.
    func delegate() throws -> Certificate {
        try Self.certificate(
            "Test Responder", by: "Test Intermediate", .init(delegateKey.publicKey), signedWith: intermediateKey,
            Certificate.Extensions {
                Critical(KeyUsage(digitalSignature: true))
                try ExtendedKeyUsage([.ocspSigning])
            })
    }

    /// A verifier that accepts what this authority signs.
    func verifier(_ checker: RevocationChecker, acceptsUnknown: Bool = false) throws -> AppStoreVerifier {
        let roots = try TrustRoots(reading: root.serializeAsPEM().pemString.utf8)
        var verifier = AppStoreVerifier(apps: .any, environments: [.sandbox], roots: roots)
        verifier.revocation = .checked(by: checker, acceptsUnknown: acceptsUnknown)
        return verifier
    }

    /// A token, signed today.
    func token(_ chain: [Certificate]) throws -> [UInt8] {
        let x5c = try chain.map { certificate in
            var serializer = DER.Serializer()
            try serializer.serialize(certificate)
            return "\"\(Data(serializer.serializedBytes).base64EncodedString())\""
        }
        let payload =
            #"{"environment":"Sandbox","autoRenewStatus":1,"signedDate":\#(Self.now.milliseconds)}"#
        let header = #"{"alg":"ES256","x5c":[\#(x5c.joined(separator: ","))]}"#
        let input = Self.base64URL(Data(header.utf8)) + "." + Self.base64URL(Data(payload.utf8))
        let signature = try leafKey.signature(for: Data(input.utf8)).rawRepresentation
        return Array("\(input).\(Self.base64URL(signature))".utf8)
    }

    // MARK: OpenSSL's files

    /// Writes an index that holds one certificate.
    func write(_ entry: Entry, _ serialNumber: Certificate.SerialNumber, to name: String) throws -> URL {
        let number = serialNumber.bytes.map { String(format: "%02X", $0) }.joined()
        return try folder.write("\(entry.rawValue)\(number)\tunknown\t/CN=Test\n", to: name)
    }

    func write(_ certificate: Certificate, to name: String) throws -> URL {
        try folder.write(certificate.serializeAsPEM().pemString, to: name)
    }

    // MARK: Certificates

    private static func access(_ responder: String) -> AuthorityInformationAccess {
        AuthorityInformationAccess([.init(method: .ocspServer, location: .uniformResourceIdentifier(responder))])
    }

    private static func certificate(
        _ subject: String, by issuer: String, _ key: Certificate.PublicKey, signedWith: P384.Signing.PrivateKey,
        serialNumber: Certificate.SerialNumber = .init(), _ extensions: Certificate.Extensions
    ) throws -> Certificate {
        let day: TimeInterval = 86_400
        return try Certificate(
            version: .v3, serialNumber: serialNumber, publicKey: key, notValidBefore: Date() - day,
            notValidAfter: Date() + day, issuer: DistinguishedName { CommonName(issuer) },
            subject: DistinguishedName { CommonName(subject) }, signatureAlgorithm: .ecdsaWithSHA384,
            extensions: extensions, issuerPrivateKey: .init(signedWith))
    }

    private static func base64URL(_ data: Data) -> String {
        data.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Crypto
import Foundation
import SwiftASN1
import TestData
import X509

/// An authority with the structure of Apple's. Its certificates are valid today, and OpenSSL reads them from files.
struct ResponderWorld {
    /// The status of a certificate in an index.
    enum Entry: String {
        case valid = "V\t491231235959Z\t\t"
        case revoked = "R\t491231235959Z\t250102030405Z,keyCompromise\t"
    }

    static let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))

    let folder: TemporaryFolder
    private let plan: ChainPlan
    let rootKey = P384.Signing.PrivateKey()
    let intermediateKey = P384.Signing.PrivateKey()
    let delegateKey = P256.Signing.PrivateKey()
    let root: Certificate

    /// The serial numbers by which an index names the certificates.
    let intermediateSerial = Certificate.SerialNumber(0x1001)
    let leafSerial = Certificate.SerialNumber(0x2002)

    init() throws {
        folder = try TemporaryFolder()
        var plan = try CertificateAuthority(from: Timestamp(milliseconds: Self.now.milliseconds - 86_400_000)).tokens
        plan.root.key = .p384(rootKey)
        plan.root.issuerKey = .p384(rootKey)
        plan.intermediate.key = .p384(intermediateKey)
        plan.intermediate.issuerKey = .p384(rootKey)
        plan.intermediate.serialNumber = Array(intermediateSerial.bytes)
        plan.leaf.issuerKey = .p384(intermediateKey)
        plan.leaf.serialNumber = Array(leafSerial.bytes)
        self.plan = plan
        root = try plan.root.issue()
    }

    func intermediate(responder: String) throws -> Certificate {
        var plan = plan.intermediate
        plan.ocspResponder = responder
        return try plan.issue()
    }

    func leaf(responder: String) throws -> Certificate {
        var plan = plan.leaf
        plan.ocspResponder = responder
        return try plan.issue()
    }

    /// The certificate of a responder that the intermediate delegated to.
    func delegate() throws -> Certificate {
        let day: TimeInterval = 86_400
        return try Certificate(
            version: .v3, serialNumber: .init(), publicKey: .init(delegateKey.publicKey), notValidBefore: Date() - day,
            notValidAfter: Date() + day, issuer: plan.intermediate.issue().subject,
            subject: DistinguishedName { CommonName("Test Responder") }, signatureAlgorithm: .ecdsaWithSHA384,
            extensions: Certificate.Extensions {
                Critical(KeyUsage(digitalSignature: true))
                try ExtendedKeyUsage([.ocspSigning])
            }, issuerPrivateKey: .init(intermediateKey))
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
        var token = try TokenPlan(
            #"{"environment":"Sandbox","autoRenewStatus":1,"signedDate":\#(Self.now.milliseconds)}"#, by: plan)
        token.chain = try chain.map { try [UInt8](der: $0) }
        return Array(try token.signed().utf8)
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
}

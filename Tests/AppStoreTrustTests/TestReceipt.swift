// SPDX-License-Identifier: Apache-2.0

import Crypto
import CryptoExtras
import Foundation
import SwiftASN1
import X509

/// An app receipt as the App Store would build and sign it, whose every part can be got wrong.
struct TestReceipt {
    /// One for all tests, since RSA keys take their time to find.
    static let key: _RSA.Signing.PrivateKey? = try? _RSA.Signing.PrivateKey(keySize: .bits2048)

    static let signedData: [UInt8] = [0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x02]
    static let data: [UInt8] = [0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01]
    static let sha1: [UInt8] = [0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a]
    static let sha256: [UInt8] = [0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01]
    static let sha384: [UInt8] = [0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02]
    static let rsa: [UInt8] = [0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01]
    static let rsaWithSHA256: [UInt8] = [0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b]

    var attributes: [[UInt8]] = [
        attribute(0, text("ProductionSandbox")), attribute(2, text("com.example")),
        attribute(12, date("2023-11-14T22:21:40Z")),
    ]
    var certificates: [Certificate]
    var digest = sha256
    var signatureAlgorithm = rsa
    var signedAttributes: [UInt8] = []
    var signers = 1
    /// What is signed, where that is not the payload.
    var signedBytes: [UInt8]?
    /// Put in the place of what the leaf says.
    var serialNumber: [UInt8]?

    init(_ authority: TestAuthority, leaf: Certificate? = nil) throws {
        certificates = [
            try leaf ?? authority.leaf(key: TestReceipt.publicKey()), try authority.intermediate(), authority.root,
        ]
    }

    static func publicKey() throws -> Certificate.PublicKey {
        guard let key else { throw CryptoKitError.incorrectKeySize }
        return Certificate.PublicKey(key.publicKey)
    }

    var payload: [UInt8] { Self.tag(0x31, attributes.flatMap(\.self)) }

    func encoded() throws -> [UInt8] {
        let null: [UInt8] = [0x05, 0x00]
        let leaf = certificates[0]
        let serial = serialNumber ?? Self.tag(0x02, Self.unsigned(Array(leaf.serialNumber.bytes)))
        let signer = try Self.tag(
            0x30,
            [0x02, 0x01, 0x01] + Self.tag(0x30, Self.der(leaf.issuer) + serial) + Self.tag(0x30, digest + null)
                + signedAttributes + Self.tag(0x30, signatureAlgorithm + null) + Self.tag(0x04, signature()))
        let content = Self.tag(0x30, Self.data + Self.tag(0xa0, Self.tag(0x04, payload)))
        let data = try Self.tag(
            0x30,
            [0x02, 0x01, 0x01] + Self.tag(0x31, Self.tag(0x30, digest + null)) + content
                + Self.tag(0xa0, certificates.flatMap(Self.der))
                + Self.tag(0x31, Array(repeatElement(signer, count: signers).joined())))
        return Self.tag(0x30, Self.signedData + Self.tag(0xa0, data))
    }

    private func signature() throws -> [UInt8] {
        guard let key = Self.key else { throw CryptoKitError.incorrectKeySize }
        let bytes = signedBytes ?? payload
        let signature =
            digest == Self.sha1
            ? try key.signature(for: Insecure.SHA1.hash(data: bytes), padding: .insecurePKCS1v1_5)
            : try key.signature(for: SHA256.hash(data: bytes), padding: .insecurePKCS1v1_5)
        return Array(signature.rawRepresentation)
    }

    // MARK: DER

    static func tag(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        var length: [UInt8] = []
        var rest = content.count
        repeat {
            length.insert(UInt8(rest & 0xff), at: 0)
            rest >>= 8
        } while rest > 0
        if content.count >= 0x80 { length.insert(0x80 | UInt8(length.count), at: 0) }
        return [tag] + length + content
    }

    static func attribute(_ type: UInt16, _ value: [UInt8]) -> [UInt8] {
        let number: [UInt8] = type < 128 ? [UInt8(type)] : [UInt8(type >> 8), UInt8(type & 0xff)]
        return tag(0x30, tag(0x02, number) + [0x02, 0x01, 0x01] + tag(0x04, value))
    }

    static func text(_ text: String) -> [UInt8] { tag(0x0c, Array(text.utf8)) }
    static func date(_ text: String) -> [UInt8] { tag(0x16, Array(text.utf8)) }

    static func der(_ value: some DERSerializable) throws -> [UInt8] {
        var serializer = DER.Serializer()
        try serializer.serialize(value)
        return serializer.serializedBytes
    }

    private static func unsigned(_ bytes: [UInt8]) -> [UInt8] {
        bytes.first.map { $0 >= 0x80 } == true ? [0] + bytes : bytes
    }
}

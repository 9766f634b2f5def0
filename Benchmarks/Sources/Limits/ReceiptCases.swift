// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Crypto
import CryptoExtras
import Foundation
import ReceiptCoding
import SwiftASN1
import X509

extension Store {
    var receipts: [Case] { signedReceipts + unsignedReceipts }

    /// The bytes that a payload may have in a receipt of the maximum length: the rest is certificates.
    private static let payload = Limits.receipt - 8_192

    private func signed(_ name: String, _ attributes: @escaping @Sendable (Int) -> [UInt8]) -> Case {
        Case("receipt, signed: \(name)", verify(receipt:)) { count in
            try authority.sign(receiptPayload: DER.payload(attributes(min(count, Self.payload))))
        }
    }

    /// One attribute, repeated as often as it fits into a receipt and as the decoder reads.
    private func signed(_ name: String, filledWith attribute: [UInt8]) -> Case {
        signed(name) { DER.filling(min($0, attribute.count * (Limits.attributes - 10)), with: attribute) }
    }

    /// Inputs that only the holder of a trusted root can make.
    private var signedReceipts: [Case] {
        let smallest = DER.attribute(99, [])
        let dates = [1704, 1706, 1708, 1712].flatMap { DER.attribute($0, DER.date("2025-06-15T12:00:00Z")) }
        let texts = [1702, 1703, 1705, 1721].flatMap { DER.attribute($0, DER.text("sixteen letters.")) }
        return [
            signed("300,000 attributes") { DER.filling($0, with: smallest) },
            signed("as many attributes as are read", filledWith: smallest),
            signed("as many empty purchases as are read", filledWith: DER.attribute(17, DER.set())),
            signed(
                "as many purchases with unknown attributes",
                filledWith: DER.attribute(17, DER.set(DER.filling(130, with: smallest)))),
            signed("as many purchases with dates", filledWith: DER.attribute(17, DER.set(dates))),
            signed("as many purchases with texts", filledWith: DER.attribute(17, DER.set(texts))),
            signed("purchases as they are", filledWith: DER.attribute(17, Self.purchase)),
            signed("purchases of 20,000 attributes") { count in
                let attributes = DER.filling(min(count, smallest.count * Limits.attributes), with: smallest)
                return DER.filling(count, with: DER.attribute(17, DER.set(attributes)))
            },
            signed("a product id of control characters") { count in
                let text = DER.element(0x0c, [UInt8](repeating: 1, count: count - 100))
                return DER.attribute(17, DER.set(DER.attribute(1702, text)))
            },
            signed("a version of combining marks") { count in
                DER.attribute(19, DER.text(String(repeating: "\u{301}", count: count / 2 - 100)))
            },
            signed("an attribute in a million chunks") { count in
                let value = DER.element(0x24, DER.filling(count - 100, with: [4, 1, 0]))
                return DER.sequence(DER.integer(99), DER.integer(1), value)
            },
            signed("an attribute in chunks of chunks, 31 deep") { Self.deep($0, type: 99, levels: 31) },
            signed("a purchase in chunks of chunks, 31 deep") { Self.deep($0, type: 17, levels: 31) },
        ]
    }

    /// An attribute of indefinite lengths. Its value is in one more level of chunks than `levels`; its first chunk is
    /// an empty set, the others are empty.
    private static func deep(_ count: Int, type: Int, levels: Int) -> [UInt8] {
        var value = DER.octets(DER.set()) + DER.filling(count - 500, with: [4, 0])
        for _ in 0..<levels - 1 { value = DER.indefinite(0x04, value) }
        return DER.indefinite(0x30, DER.integer(type) + DER.integer(1) + value)
    }

    private static let purchase: [UInt8] = {
        let date = DER.date("2025-06-15T12:00:00Z")
        return DER.set(
            DER.attribute(1701, DER.integer(1)) + DER.attribute(1702, DER.text("com.example.notes.premium.yearly"))
                + DER.attribute(1703, DER.text("710001234567890")) + DER.attribute(1704, date)
                + DER.attribute(1705, DER.text("710001234500000")) + DER.attribute(1706, date)
                + DER.attribute(1707, DER.integer(3)) + DER.attribute(1708, date)
                + DER.attribute(1711, DER.integer(710_000_567_890_123)) + DER.attribute(1712, DER.date(""))
                + DER.attribute(1713, DER.integer(0)) + DER.attribute(1719, DER.integer(0)))
    }()

    private func unsigned(_ name: String, _ make: @escaping @Sendable (Int) throws -> [UInt8]) -> Case {
        Case("receipt, unsigned: \(name)", verify(receipt:)) { try make(min(max($0, 40_000), Limits.receipt)) }
    }

    /// Inputs that any client can make.
    private var unsignedReceipts: [Case] {
        let smallest = DER.attribute(99, [])
        return [
            unsigned("another payload under a genuine signature") { count in
                try envelope(payload: DER.payload(DER.filling(count - 4_096, with: smallest)))
            },
            unsigned("29 levels of lengths that are not known around all of it") { count in
                var nest = DER.filling(count - 4_096, with: [5, 0])
                for _ in 0..<29 { nest = DER.indefinite(0x30, nest) }
                return DER.indefinite(0x30, Self.signedDataOID + DER.indefinite(0xa0, nest))
            },
            unsigned("lengths that are not known wherever there may be one") { count in
                try indefiniteEnvelope(payload: DER.filling(count - 8_192, with: [4, 0]))
            },
            unsigned("a million levels") { DER.filling($0, with: [0x30, 0x80]) },
            unsigned("an object identifier over all of it") { count in
                DER.sequence(DER.element(0x06, [UInt8](repeating: 1, count: count)), DER.context0([]))
            },
            unsigned("a certificate of many parts") { count in
                let certificate = DER.sequence(DER.filling(count - 8_192, with: [5, 0]))
                return try envelope(payload: DER.payload([]), certificates: [certificate])
            },
            unsigned("seven certificates of many parts, as long as they may be") { _ in
                let certificate = DER.sequence(DER.filling(Limits.certificate - 8, with: [5, 0]))
                return try envelope(
                    payload: DER.payload([]), certificates: Array(repeating: certificate, count: 7))
            },
            unsigned("seven certificates more by the names of the signer and its issuer") { count in
                try envelope(payload: DER.payload(DER.filling(count - 30_000, with: smallest)), impostors: 7)
            },
        ]
    }

    private static let signedDataOID: [UInt8] = DER.element(
        0x06, [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x02])
    private static let dataOID: [UInt8] = DER.element(0x06, [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01])
    private static let sha256 = DER.sequence(DER.element(0x06, [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01]))
    private static let rsa = DER.sequence(DER.element(0x06, [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01]))

    /// A genuine envelope with another payload, and certificates before its own.
    private func envelope(
        payload: [UInt8], certificates: [[UInt8]] = [], impostors: Int = 0
    ) throws -> [UInt8] {
        let genuine = try SignedReceipt(decoding: authority.sign(receiptPayload: DER.payload([])))
        let all = try certificates + Self.impostors(impostors, of: genuine) + genuine.certificates.map(Array.init)
        let content = DER.sequence(Self.dataOID, DER.context0(DER.octets(payload)))
        let data = DER.sequence(
            DER.integer(1), DER.set(Self.sha256), content, DER.context0(Array(all.joined())),
            DER.set(Self.signerInfo(genuine.signer)))
        return DER.sequence(Self.signedDataOID, DER.context0(data))
    }

    private static func signerInfo(_ signer: SignedReceipt.Signer) -> [UInt8] {
        DER.sequence(
            DER.integer(1), DER.sequence(Array(signer.issuer), DER.element(0x02, Array(signer.serialNumber))), sha256,
            rsa, DER.octets(Array(signer.signature)))
    }

    /// A genuine envelope with a payload in chunks, and indefinite lengths in every place that allows them.
    private func indefiniteEnvelope(payload chunks: [UInt8]) throws -> [UInt8] {
        let genuine = try SignedReceipt(decoding: authority.sign(receiptPayload: DER.payload([])))
        var payload = chunks
        for _ in 0..<26 { payload = DER.indefinite(0x04, payload) }
        let content = DER.indefinite(0x30, Self.dataOID + DER.indefinite(0xa0, payload))
        let data = DER.indefinite(
            0x30,
            DER.integer(1) + DER.set(Self.sha256) + content
                + DER.indefinite(0xa0, Array(genuine.certificates.joined())) + DER.set(Self.signerInfo(genuine.signer)))
        return DER.indefinite(0x30, Self.signedDataOID + DER.indefinite(0xa0, data))
    }

    /// Certificates with another key but the names, serial number and extensions of the genuine signer, in the first
    /// half, or of its issuer, in the second half. A verifier has to consider each as the signer or as its issuer.
    private static func impostors(_ count: Int, of genuine: SignedReceipt) throws -> [[UInt8]] {
        guard count > 0 else { return [] }
        let chain = try genuine.certificates.map { try Certificate(derEncoded: Array($0)) }
        let key = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        return try (0..<count).map { index in
            let model = chain[index < count / 2 ? 0 : 1]
            // The different end of validity makes each certificate a different one.
            let certificate = try Certificate(
                version: .v3, serialNumber: model.serialNumber, publicKey: .init(key.publicKey),
                notValidBefore: model.notValidBefore, notValidAfter: model.notValidAfter + Double(index + 1),
                issuer: model.issuer, subject: model.subject, signatureAlgorithm: .sha256WithRSAEncryption,
                extensions: model.extensions, issuerPrivateKey: .init(key))
            var serializer = SwiftASN1.DER.Serializer()
            try serializer.serialize(certificate)
            return serializer.serializedBytes
        }
    }
}

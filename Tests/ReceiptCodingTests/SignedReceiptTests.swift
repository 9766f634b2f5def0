// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import ReceiptCoding
import TestData
import Testing

/// A receipt's container is read, written and read again.
@Suite(.enabled(if: TestData.isThere, "\(TestData.whyNot)")) struct SignedReceiptTests {
    /// Sizes around those at which a length takes another byte, and more bytes than one container is expected to have.
    @Test(arguments: [0, 1, 100, 120, 127, 128, 129, 230, 255, 256, 257, 5000, 65_000, 65_535, 65_536, 70_000])
    func `a canonical container is the same as one that is written element by element`(size: Int) throws {
        let part = [UInt8](repeating: 7, count: size)
        let certificates = [1, 2, 3].map { DEREncoding.sequence([UInt8](repeating: $0, count: min(size, 16_000))) }
        let signer = DEREncoding.sequence(
            DEREncoding.sequence(part), DEREncoding.element(0x02, [UInt8](repeating: 1, count: max(1, size))))
        let written = SignedReceipt.container(
            digest: .sha256, content: [DEREncoding.octetString(part)[...]], certificates: certificates,
            signerInfos: SignedReceipt.signerInfo(signer: signer, digest: .sha256, signature: part))
        let receipt = try SignedReceipt(decoding: written)
        #expect(receipt.canonical(certificates: certificates) == written)
        #expect(receipt.canonical(certificates: []).count < written.count)
    }

    /// The parts of a receipt that the canonical container keeps.
    private static func parts(_ receipt: SignedReceipt) -> [[UInt8]] {
        let signer = receipt.signer
        return [Array(receipt.payload), Array(signer.issuer), Array(signer.serialNumber), Array(signer.signature)]
            + ["\(signer.digestAlgorithm)"].map { Array($0.utf8) } + receipt.certificates.map { Array($0) }
    }

    private static func canonical(_ receipt: SignedReceipt) -> [UInt8] {
        receipt.canonical(certificates: receipt.certificates.map { Array($0) })
    }

    @Test(arguments: [
        "receipts/sandbox-2025-sha256-2-purchases.b64", "receipts/mac-production-2017-sha1.der",
        "receipts/xcode-ber-1-purchase.b64",
    ])
    func `a container that can be read is written to one that reads the same`(file: String) throws {
        let bytes = try TestData.receipt(file)
        var random = SeededRandom(seed: 1)
        var read = 0
        for _ in 0..<1000 {
            var changed = bytes
            for _ in 0..<Int.random(in: 0...2, using: &random) {
                changed[Int.random(in: 0..<changed.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            guard let receipt = try? SignedReceipt(decoding: changed) else { continue }
            read += 1
            let written = Self.canonical(receipt)
            let returned = try SignedReceipt(decoding: written)
            #expect(Self.parts(returned) == Self.parts(receipt))
            #expect(Self.canonical(returned) == written)
        }
        #expect(read > 200)
    }
}

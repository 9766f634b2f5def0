// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import ReceiptCoding
import TestWorld
import Testing

/// The results of valid receipts. The vectors cover invalid ones.
@Suite struct ReceiptVerificationTests {
    @Test func `a receipt of the simulator is verified with all its attributes`() async throws {
        let authority = try CertificateAuthority(from: Timestamp(milliseconds: 1_700_000_000_000))
        var receipt = AppReceipt()
        receipt.receiptType = Open(.productionSandbox)
        receipt.bundleId = "com.example"
        receipt.bundleIdBytes = DEREncoding.utf8String("com.example")[...]
        receipt.receiptCreationDate = Timestamp(milliseconds: 1_700_000_500_000)
        var purchase = InAppPurchase()
        purchase.productId = "com.example.pro"
        purchase.expiresDate = Timestamp(milliseconds: 1_700_000_600_000)
        receipt.inAppPurchases = [purchase]
        let document = try authority.sign(receipt)
        let verifier = AppStoreVerifier(
            apps: .only([AppIdentity(bundleId: "com.example")]), environments: [.sandbox], roots: try authority.trust)
        let verified = try await verifier.verify(
            receipt: document, at: Timestamp(milliseconds: 1_900_000_000_000))
        #expect(verified.payload == receipt)
        #expect(verified.document == document)
        #expect(verified.signedDate == receipt.receiptCreationDate)
    }

    @Test func `a receipt longer than the limit is refused before it is parsed`() async throws {
        let bytes = [UInt8](repeating: 0x30, count: Limits.receipt + 1)
        let error = #expect(throws: ReceiptDecodingError.self) { try SignedReceipt(decoding: bytes) }
        #expect(error?.message.contains("more than") == true)
    }
}

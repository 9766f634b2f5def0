// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import ReceiptCoding
import Testing

/// Old transaction receipts of a simulated App Store, as our verifier sees them.
@Suite struct TransactionReceiptTests {
    private static func verifier(_ fixture: StoreFixture, withIntermediate: Bool = true) throws -> AppStoreVerifier {
        var verifier = try fixture.verifier()
        let roots = try SimulatorRoots(fixture.store.signer.authority)
        if withIntermediate { verifier.intermediates = try Intermediates(reading: roots.receiptIntermediate) }
        return verifier
    }

    @Test(arguments: ["coins", "book", "season", "sub", "sandbox", "shared"])
    func `the receipt of a purchase verifies, and says what was bought`(name: String) async throws {
        let fixture = try StoreFixture.shop()
        let id = try #require(fixture.names[name])
        let transaction = try #require(fixture.store.world.transaction(id))
        let info = try #require(fixture.store.world.transactionReceipt(of: id))
        let receipt = try fixture.store.signer.sign(info)
        let verified = try await Self.verifier(fixture)
            .verify(transactionReceipt: receipt, at: fixture.store.world.now)
        #expect(verified.payload == info && verified.bundleId == "com.example")
        #expect(info.productId == transaction.productId && info.transactionId == id)
        #expect(info.originalTransactionId == transaction.originalTransactionId)
        #expect(info.purchaseDate == transaction.purchaseDate && info.expiresDate == transaction.expiresDate)
        #expect(verified.receipt.environment == (name == "sandbox" ? "Sandbox" : nil))
        #expect(try verified.receipt.signatureParts().version == 3)
        #expect(Array(receipt.prefix(17)) == Array("{\n\t\"signature\" = ".utf8))
    }

    @Test func `a purchase in each half year has a signer of its time`() async throws {
        var fixture = try StoreFixture.shop()
        fixture.wait(minutes: 800 * 1440)
        let chain = try #require(fixture.store.world.subscriptions[fixture.names["sub"] ?? ""])
        #expect(chain.transactions.count == 3)
        var signers: Set<[UInt8]> = []
        for transaction in chain.transactions {
            let info = try #require(fixture.store.world.transactionReceipt(of: transaction.transactionId ?? ""))
            let verified = try await Self.verifier(fixture)
                .verify(transactionReceipt: fixture.store.signer.sign(info), at: fixture.store.world.now)
            signers.insert(Array(try verified.receipt.signatureParts().certificate))
        }
        #expect(!signers.isEmpty)
    }

    @Test func `without the intermediate certificate, or with another product, it is refused`() async throws {
        let fixture = try StoreFixture.shop()
        var info = try #require(fixture.store.world.transactionReceipt(of: fixture.names["book"] ?? ""))
        let receipt = try fixture.store.signer.sign(info)
        let now = fixture.store.world.now
        await #expect(throws: VerificationError.self) {
            try await Self.verifier(fixture, withIntermediate: false).verify(transactionReceipt: receipt, at: now)
        }
        info.productId = "season"
        let other = try TransactionReceipt(decoding: fixture.store.signer.sign(info))
        let mixed = String(decoding: receipt, as: UTF8.self).replacing(
            Base64.encode(try TransactionReceipt(decoding: receipt).purchaseInfo),
            with: Base64.encode(other.purchaseInfo))
        await #expect(throws: VerificationError.self) {
            try await Self.verifier(fixture).verify(transactionReceipt: Array(mixed.utf8), at: now)
        }
        #expect(fixture.store.world.transactionReceipt(of: "1") == nil)
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import HostileVectors
import PurchaseLedger
import ReceiptCoding
import TestWorld
import Testing

/// Tests that a ledger stores a receipt in one canonical form.
@Suite struct CanonicalEvidenceTests {
    private static let signed = Result { try SignedHistory() }

    private static func receipt() throws -> (document: [UInt8], verifier: AppStoreVerifier) {
        let signed = try signed.get()
        return (try signed.receipt([TestStore.purchase()], created: 1), signed.verifier)
    }

    private static func documents(in ledger: Ledger) async throws -> [[UInt8]] {
        try await ledger.documents().map(\.document)
    }

    @Test func `a receipt in every wrapping, even one of two megabytes, is stored as one small document`() async throws
    {
        let (receipt, verifier) = try Self.receipt()
        let ledger = Ledger(storage: MemoryLedgerStorage())
        let large = ReceiptWrapping.all(unsignedBytes: 2_000_000).filter { $0.name == "unsigned-attributes" }
        for wrapping in large + ReceiptWrapping.all(unsignedBytes: 1000) {
            let document = try await verifier.evidence(receipt: wrapping(receipt), at: Facts.day(1))
            _ = try await ledger.record([document], at: Facts.day(1))
        }
        #expect(try await Self.documents(in: ledger) == [receipt])
        #expect(try await ledger.check(by: verifier).faults == [])
    }
}

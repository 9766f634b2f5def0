// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Testing

@testable import LedgerPostgres

/// Tests the binary form of chains, which databases keep for years. The contract tests that nothing is lost in it.
@Suite struct ChainCodingTests {
    private static let key = ChainKey("2000000001", in: LedgerScope(bundleId: "com.example", environment: .sandbox))

    private static let record: ChainRecord = {
        var record = ChainRecord(key)
        let digest = DocumentDigest([1, 2, 3])
        let provenance = Provenance(signedDate: Timestamp(milliseconds: 1_700_000_000_000), digest: digest)
        var statement = TransactionStatement(
            source: .receipt, provenance: provenance, transactionId: "2", originalTransactionId: "2000000001",
            productId: "monthly")
        statement.commitment = TransactionStatement.Commitment(billingPeriodNumber: 3)
        record.chain.merge(statement)
        record.chain.merge(RenewalFact(provenance: provenance, originalTransactionId: "2000000001"))
        let state = ChainState(status: .active, productId: "monthly", until: Timestamp(milliseconds: -1))
        record.report = ChainReport(state, isSubscription: true, revoked: ["b", "a"])
        record.owners = [ChainRecord.Owner(Customer(number: 7, bundleId: "com.example"), .claim)]
        return record
    }()

    /// Written by the first version. It must be read the same by every later one.
    private static let golden = """
        01910180a0abfef962970120039058c6f2c0cb492c533b0a4d14ef77cc0f78abccced5287d84a1a2011cfb81a50100c20106\
        616374697665c601076d6f6e74686c79c90101d50102e101000000020161016200010e05636c61696d0106013209020d80a0\
        abfef9621320039058c6f2c0cb492c533b0a4d14ef77cc0f78abccced5287d84a1a2011cfb8116076d6f6e74686c7929022d\
        005580a0abfef96271060000
        """

    @Test func `a chain that the first version wrote is read as it was`() throws {
        let bytes = try ChainCoding.encode(Self.record)
        let text = bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        #expect(text == Self.golden)
        #expect(try ChainCoding.decode(bytes, Self.key) == Self.record)
    }

    @Test func `bytes that were cut off or changed are refused or read, but end nothing`() throws {
        let bytes = try ChainCoding.encode(Self.record)
        for count in bytes.indices {
            #expect(throws: LedgerStorageError.self) { try ChainCoding.decode(Array(bytes[..<count]), Self.key) }
        }
        for place in bytes.indices {
            for bit in 0..<8 {
                var changed = bytes
                changed[place] ^= 1 << bit
                _ = try? ChainCoding.decode(changed, Self.key)
            }
        }
    }

    @Test func `names of fields keep their numbers, and none has two`() {
        #expect(Set(FieldNumbers.names).count == FieldNumbers.names.count)
        #expect(FieldNumbers.names.firstIndex(of: "revokedSeats") == 31)
        #expect(FieldNumbers.names.firstIndex(of: "nextChange") == 56)
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Testing

@testable import LedgerPostgres

/// Tests the binary form of chains, which databases keep. The contract tests that nothing is lost in it.
@Suite struct ChainCodingTests {
    private static let key = ChainKey("2000000001", in: LedgerScope(bundleId: "com.example", environment: .sandbox))

    private static let record: ChainRecord = {
        var record = ChainRecord(key)
        let digest = DocumentDigest([1, 2, 3])
        let provenance = Provenance(signedDate: Timestamp(milliseconds: 1_700_000_000_000), digest: digest)
        var statement = TransactionStatement(
            source: .receipt, provenance: provenance, transactionId: "2", chain: "2000000001",
            productId: "monthly")
        statement.commitment = TransactionStatement.Commitment(billingPeriodNumber: 3)
        record.chain.merge(statement)
        record.chain.merge(RenewalFact(provenance: provenance, chain: "2000000001"))
        let state = ChainState(
            status: .active, productId: "monthly", hasAccess: true, until: Timestamp(milliseconds: -1))
        record.report = ChainReport(state, isSubscription: true, revoked: ["b", "a"])
        record.owners = [ChainRecord.Owner(Customer(number: 7, bundleId: "com.example"), .claim)]
        return record
    }()

    /// The recorded form. If it changes before the first release, the baseline of ``Schema/steps`` changes too.
    private static let golden = """
        01a50200a90180a0abfef962af0120039058c6f2c0cb492c533b0a4d14ef77cc0f78abccced5287d84a1a2011cfb81b20102\
        7b7dbd0100c50100de0106616374697665e201076d6f6e74686c79e50102e90101f901028502008a02025b5d8d0200000002\
        0161016200010e05636c61696d0106013209020d80a0abfef9621320039058c6f2c0cb492c533b0a4d14ef77cc0f78abccce\
        d5287d84a1a2011cfb8116076d6f6e74686c7929022d005580a0abfef96271060000
        """

    /// Two transactions, one of them from both kinds of documents, and residue.
    private static let severalStatements: ChainRecord = {
        var record = ChainRecord(key)
        func statement(_ id: String, _ source: TransactionStatement.Source) -> TransactionStatement {
            let provenance = Provenance(signedDate: Timestamp(milliseconds: 5), digest: DocumentDigest([4]))
            return TransactionStatement(
                source: source, provenance: provenance, transactionId: id, chain: "2000000001",
                productId: "monthly")
        }
        record.chain.merge(statement("9", .receipt))
        record.chain.merge(statement("9", .signedTransaction))
        record.chain.merge(statement("10", .signedTransaction))
        record.chain.mergeResidue(statement("8", .receipt))
        return record
    }()

    private static let goldenStatements = """
        01a502000000000000030602313009000d0a1320e52d9c508c502347344d8c07ad91cbd6068afc75ff6292f062a09ca381c8\
        9e7116076d6f6e74686c7929022d00550a0006013909000d0a1320e52d9c508c502347344d8c07ad91cbd6068afc75ff6292\
        f062a09ca381c89e7116076d6f6e74686c7929022d00550a0006013909020d0a1320e52d9c508c502347344d8c07ad91cbd6\
        068afc75ff6292f062a09ca381c89e7116076d6f6e74686c7929022d00550a000106013809020d0a1320e52d9c508c502347\
        344d8c07ad91cbd6068afc75ff6292f062a09ca381c89e7116076d6f6e74686c7929022d00550a00
        """

    @Test(arguments: [(record, golden), (severalStatements, goldenStatements)])
    func `a chain has its recorded form, and is read from it`(record: ChainRecord, golden: String) throws {
        let bytes = try ChainCoding.encode(record)
        let text = bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        #expect(text == golden)
        #expect(try ChainCoding.decode(bytes, Self.key) == record)
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

    @Test func `fields of a later version are passed over`() throws {
        var writer = FieldWriter([1])
        writer.append(count: (FieldNumbers.names.count + 1) << 2 | 2)
        writer.append(text: "of a later version")
        let bytes = try writer.bytes + ChainCoding.encode(Self.record).dropFirst()
        #expect(try ChainCoding.decode(bytes, Self.key) == Self.record)
    }

    @Test func `no name of a field has two numbers`() {
        #expect(Set(FieldNumbers.names).count == FieldNumbers.names.count)
    }
}

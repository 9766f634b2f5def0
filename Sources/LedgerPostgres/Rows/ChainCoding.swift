// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The binary form of a `ChainRecord`, the stored record of a purchase. The record's key is not in it, because the
/// database has the key in columns.
///
/// The first byte is the number of the form. The fields of the record follow, each with its number in ``FieldNumbers``,
/// and then the record's lists. Absent fields take no bytes. A later version of the software may add fields, and lists
/// at the end, but must not change the number of a field.
enum ChainCoding {
    private static let form: UInt8 = 1

    static func encode(_ record: ChainRecord) throws -> [UInt8] {
        var writer = FieldWriter([form])
        try writer.append(Header(record: record))
        writer.append(texts: record.chain.predecessors)
        writer.append(texts: record.report?.revoked ?? [])
        writer.append(count: record.ownerChanges.count)
        for time in record.ownerChanges { writer.append(integer: time.milliseconds) }
        writer.append(count: record.owners.count)
        for owner in record.owners {
            writer.append(integer: owner.customer.number)
            writer.append(text: owner.reason.rawValue)
        }
        for facts in [record.chain.transactions, record.chain.residue] {
            writer.append(count: facts.values.reduce(0) { $0 + $1.statementCount })
            for fact in facts.values.sorted(by: { $0.key.transactionId < $1.key.transactionId }) {
                if let signed = fact.signed { try writer.append(signed) }
                if let receipt = fact.receipt { try writer.append(receipt) }
                for other in fact.others { try writer.append(other) }
            }
        }
        return writer.bytes
    }

    /// - Parameter settled: If given, past periods are left out that the question does not need.
    /// - Throws: `LedgerStorageError` if the bytes are damaged, or if a newer version of the software wrote them with a
    ///   different first byte.
    static func decode(_ bytes: [UInt8], _ key: ChainKey, besides settled: SettledChains? = nil) throws -> ChainRecord {
        guard bytes.first == form else { throw FieldReader.damaged }
        var reader = FieldReader(bytes, from: 1)
        var record = try reader.fields(of: Header(record: ChainRecord(key))).record
        let settlement = record.settlement
        let needed = settled.flatMap { record.neededPeriods($0) }
        record.chain.predecessors = Set(try reader.texts())
        let revoked = try reader.texts()
        record.report?.revoked = Set(revoked)
        record.ownerChanges = try reader.items().map { _ in Timestamp(milliseconds: try reader.integer()) }
        record.owners = try reader.items().map { _ in
            let customer = Customer(number: try reader.integer(), bundleId: key.scope.bundleId)
            return ChainRecord.Owner(customer, Open(rawValue: try reader.text()))
        }
        for _ in try reader.items() {
            if let needed, try reader.skipsPeriod(besides: needed) { continue }
            record.chain.take(try reader.statement(of: key))
        }
        for _ in try reader.items() { record.chain.mergeResidue(try reader.statement(of: key)) }
        // The facts are those of the settlement, which reading them has ended.
        record.settlement = settlement
        return record
    }
}

extension FieldReader {
    fileprivate mutating func statement(of key: ChainKey) throws -> TransactionStatement {
        var statement = TransactionStatement.blank
        statement.chainName = key.name
        return try fields(of: statement)
    }

    /// Skips a statement about a period that is not needed.
    fileprivate mutating func skipsPeriod(besides needed: NeededPeriods) throws -> Bool {
        try skipFields { reader in
            let bought = Timestamp(try reader.stored(Self.purchaseDate))
            return !needed.contains(boughtAt: bought, until: Timestamp(try reader.stored(Self.expiresDate)))
        }
    }

    private static let purchaseDate = FieldNumbers.all["purchaseDate"] ?? 0
    private static let expiresDate = FieldNumbers.all["expiresDate"] ?? 0
}

/// The fields of a chain's record, without the lists that ``ChainCoding`` writes after them.
private struct Header: CodedFields {
    var record: ChainRecord

    static let blank = Header(record: .blank)
    static let layout = FieldLayout(Header.self)

    mutating func fields(_ coder: inout some FieldCoder) throws {
        try record.fields(&coder)
        var nextChange = record.report?.nextChange
        var asOf = record.report?.asOf
        try coder.field("nextChange", &nextChange)
        try coder.field("publishedAsOf", &asOf)
        record.report?.nextChange = nextChange
        record.report?.asOf = asOf
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// A chain (a purchase with its renewals) with the number of its row. The record is empty if the row exists only
/// because documents refer to it.
struct StoredChain {
    let number: Int64
    var record: ChainRecord

    /// Reads the chain's row in `chains` and its owners, but not the facts about its transactions, which are in
    /// separate tables.
    init(_ row: inout RowReader, _ key: ChainKey) throws {
        number = try row.next()
        record = try row.fields(of: ChainRecord(key))
        let nextChange = try row.next(Timestamp?.self)
        let asOf = try row.next(Timestamp?.self)
        record.report?.nextChange = nextChange
        record.report?.asOf = asOf
        record.ownerChanges = try row.next(TimestampList.self).times
        record.owners = try row.next(String?.self).map { try ChainRecord.Owner.list($0, key) } ?? []
    }

    init(number: Int64, record: ChainRecord) {
        self.number = number
        self.record = record
    }
}

// MARK: - Lists

/// Instants in milliseconds since 1970, as JSON; null if the list is empty.
struct TimestampList: Storable {
    let times: [Timestamp]

    init(_ times: [Timestamp]) {
        self.times = times
    }

    init?(_ stored: StoredValue) {
        guard let array = JSONValue.array(stored) else { return nil }
        times = array.compactMap { $0.integer.map(Timestamp.init(milliseconds:)) }
    }

    var stored: StoredValue {
        times.isEmpty ? .null : .text(JSONValue.array(times.map { .number("\($0.milliseconds)") }).compactText)
    }
}

extension ChainRecord.Owner {
    /// Reads pairs of the form `number reason`, separated by commas.
    fileprivate static func list(_ text: String, _ key: ChainKey) throws -> [ChainRecord.Owner] {
        try text.utf8.split(separator: UInt8(ascii: ",")).map { owner in
            let words = owner.split(separator: UInt8(ascii: " ")).map { String(Substring($0)) }
            guard words.count == 2, let number = Int64(words[0]) else {
                throw SQLiteErrors.damaged("The owners of a chain are not readable: \(text)")
            }
            return ChainRecord.Owner(Customer(number: number, bundleId: key.scope.bundleId), Open(rawValue: words[1]))
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
public import PurchaseLedger

/// A chain's record with the number of its row.
struct StoredChain {
    let number: Int64
    var record: ChainRecord

    /// The record; `nil` if the row exists only because documents refer to it.
    var recordIfAny: ChainRecord? { record == ChainRecord(record.key) ? nil : record }

    /// Reads the chain's own row, with its owners, but not its facts.
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
        (self.number, self.record) = (number, record)
    }
}

// MARK: - Fields

extension ChainRecord: StoredFields {
    @usableFromInline package static let blank = ChainRecord(
        ChainKey("", in: LedgerScope(bundleId: "", environment: .production)))

    /// All fields except the key, those in other tables, and `nextChange` and `asOf`, which are written separately
    /// because they are indexed.
    @usableFromInline
    package mutating func fields(_ coder: inout some FieldCoder) throws {
        try coder.field("erasedAt", &erasedAt)
        try coder.field("lastEventAt", &lastEventAt)
        try coder.field("successor", &successor)
        try coder.field("claimants", &claimants)
        var predecessors = StringList(chain.predecessors)
        try coder.field("predecessors", &predecessors)
        chain.predecessors = predecessors.strings
        var renewal = chain.renewal
        try coder.group(&renewal)
        renewal?.chainName = key.name
        if let renewal { chain.merge(renewal) }
        try coder.group(&report)
    }
}

extension ChainReport: StoredFields {
    @usableFromInline package static let blank = ChainReport(.blank, isSubscription: false)

    /// All fields except `nextChange` and `asOf`.
    @usableFromInline
    package mutating func fields(_ coder: inout some FieldCoder) throws {
        try state.fields(&coder)
        try coder.field("publishedIsSubscription", &isSubscription)
        try coder.field("publishedTransactionId", &transactionId)
        try coder.field("publishedExpiresDate", &expiresDate)
        var list = StringList(revoked)
        try coder.field("publishedRevoked", &list)
        revoked = list.strings
        try coder.field("publishedEntitling", &isEntitling)
    }
}

extension ChainState: StoredFields {
    @usableFromInline package static let blank = ChainState(status: .active)

    @usableFromInline
    package mutating func fields(_ coder: inout some FieldCoder) throws {
        try coder.field("publishedStatus", &status)
        try coder.field("publishedProductId", &productId)
        try coder.field("publishedUntil", &until)
        try coder.field("publishedWillRenew", &willRenew)
        try coder.field("publishedCommitmentWillRenew", &commitmentWillRenew)
    }
}

// MARK: - Lists

// Lists that few chains have are JSON in one column. An empty list is null.

/// Strings, which are sorted so that equal sets are equal texts.
private struct StringList: Storable {
    let strings: Set<String>

    init(_ strings: Set<String>) {
        self.strings = strings
    }

    init?(_ stored: StoredValue) {
        guard let array = JSONValue.array(stored) else { return nil }
        strings = Set(array.compactMap(\.string))
    }

    var stored: StoredValue {
        strings.isEmpty ? .null : .text(JSONValue.array(strings.sorted().map { .string($0) }).compactText)
    }
}

/// Instants in milliseconds since 1970.
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

extension JSONValue {
    /// The elements of a JSON array; none for null or for other JSON; `nil` if the value is not JSON.
    fileprivate static func array(_ stored: StoredValue) -> [JSONValue]? {
        guard case .text(let text) = stored else { return stored == .null ? [] : nil }
        return (try? JSONValue(parsing: text.utf8)).map { $0.array ?? [] }
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

// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

// Encodes stored fields, such as the fields of a chain's record, in binary. A field begins with its head, an unsigned
// integer that combines the field's number with the type of its value. The value follows. Null fields are omitted. A
// zero in place of a head ends the fields. Heads, counts and integers are written seven bits at a time, the lowest bits
// first.

/// The numbers that stand for the names of fields in the binary form.
enum FieldNumbers {
    /// The names in the order of their numbers, which begin with 1. Until the first release, a change raises the
    /// baseline of ``Schema/steps``. Afterwards a new name is appended.
    static let names = [
        "transactionId", "source", "signedDate", "evidence", "productId", "type", "subscriptionGroup", "purchaseDate",
        "expiresDate", "quantity", "isUpgraded", "revocationDate", "revocationReason", "revocationType",
        "revocationPercentage", "ownership", "appAccountToken", "offerType", "webOrderLineItemId", "transactionReason",
        "knownSince", "price", "currency", "offerIdentifier", "offerDiscountType", "offerPeriod", "storefront",
        "commitmentPeriod", "commitmentPeriods", "commitmentExpiresDate", "commitmentPrice", "revokedSeats",
        "originalApplicationVersion", "originalPlatform", "receiptType", "olderMembers", "otherChain",
        "erasedAt", "lastEventAt", "successor", "claimants", "renewalSignedDate", "renewalEvidence",
        "renewalTerms", "autoRenewStatus", "expirationIntent", "isInBillingRetry", "gracePeriodExpiresDate",
        "hasGraceWithoutEnd", "renewalAppAccountToken", "olderTokenDate", "renewalDate", "commitmentAutoRenewStatus",
        "commitmentAutoRenewProductId", "publishedStatus", "publishedProductId", "publishedHasAccess", "publishedUntil",
        "publishedWillRenew", "publishedCommitmentWillRenew", "publishedRenewal", "publishedIsSubscription",
        "publishedTransactionId", "publishedExpiresDate", "publishedEntitling", "publishedEntitlements",
        "publishedDetails", "publishedExpirationIntent", "deniedAt", "deniedBecause", "nextChange", "publishedAsOf",
        "isCorrected", "settledAt", "settledBy", "unknownProducts", "newestPeriod",
    ]

    /// The number of each name.
    static let all = Dictionary(uniqueKeysWithValues: zip(names, 1...))
}

/// The numbers of a type's fields, in the order in which the type lists its fields. They are cached per type, because
/// finding a number by name takes longer than reading or writing the value.
struct FieldLayout: FieldCoder, Sendable {
    /// The number of each field, or 0 if its name has no number. An optional value with fields of its own is a group.
    /// Before the entries of a group comes their count.
    private(set) var entries: [Int] = []

    init<Fields: StoredFields>(_: Fields.Type) {
        var blank = Fields.blank
        // Never throws, because noting an entry does not throw.
        try? blank.fields(&self)
    }

    mutating func field(_ name: StaticString, _ value: inout some Storable) {
        entries.append(FieldNumbers.all["\(name)"] ?? 0)
    }

    mutating func group<Group: StoredFields>(_ group: inout Group?) {
        let group = FieldLayout(Group.self).entries
        entries += [group.count] + group
    }

    /// Does nothing, because sets of texts are not among the fields but follow them, see ``ChainCoding``.
    func texts(_ name: StaticString, _ value: inout Set<String>) {}
}

/// A type whose fields have numbers in ``FieldNumbers``, and so can be written and read in binary.
protocol CodedFields: StoredFields {
    static var layout: FieldLayout { get }
}

extension TransactionStatement: CodedFields {
    static let layout = FieldLayout(TransactionStatement.self)
}

// MARK: - Writing

struct FieldWriter: FieldCoder {
    private(set) var bytes: [UInt8]
    /// The rest of the ``FieldLayout``: the entries of the fields not yet written.
    private var entries: ArraySlice<Int> = []

    /// A capacity in bytes that suffices for the records of most chains.
    private static let usualSize = 2048

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        self.bytes.reserveCapacity(Self.usualSize)
    }

    /// - Throws: `LedgerStorageError` if a field has no number.
    mutating func append<Fields: CodedFields>(_ fields: consuming Fields) throws {
        entries = Fields.layout.entries[...]
        try fields.fields(&self)
        bytes.append(0)
    }

    mutating func field(_ name: StaticString, _ value: inout some Storable) throws {
        guard let number = entries.popFirst(), number != 0 else {
            throw LedgerStorageError(.unavailable, "The field \(name) has no number in the binary form")
        }
        switch value.stored {
        case .null: break
        case .integer(let integer):
            append(count: number << 2 | 1)
            append(integer: integer)
        case .text(let text):
            append(count: number << 2 | 2)
            append(text: text)
        case .bytes(let found):
            append(count: number << 2 | 3)
            append(count: found.count)
            bytes += found
        }
    }

    mutating func group<Group: StoredFields>(_ group: inout Group?) throws {
        let count = entries.popFirst() ?? 0
        if group == nil { entries = entries.dropFirst(count) } else { try group?.fields(&self) }
    }

    func texts(_ name: StaticString, _ value: inout Set<String>) {}

    mutating func append(count: Int) { append(bits: UInt64(bitPattern: Int64(count))) }

    /// ZigZag encoding moves the sign to the lowest bit, so that small numbers of either sign take few bytes.
    mutating func append(integer: Int64) { append(bits: UInt64(bitPattern: integer << 1 ^ integer >> 63)) }

    mutating func append(text: String) {
        append(count: text.utf8.count)
        bytes += text.utf8
    }

    mutating func append(texts: Set<String>) {
        append(count: texts.count)
        for text in texts.sorted() { append(text: text) }
    }

    private mutating func append(bits: UInt64) {
        var rest = bits
        while rest > 0x7f {
            bytes.append(UInt8(rest & 0x7f) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }
}

// MARK: - Reading

struct FieldReader: FieldCoder {
    private let bytes: [UInt8]
    private var offset: Int
    /// The rest of the ``FieldLayout``: the entries of the fields not yet read.
    private var entries: ArraySlice<Int> = []
    /// The offset and type of each field's value, indexed by the field's number. The two lowest bits are the type, and
    /// the other bits are the offset. An absent field has 0.
    private var values = [Int](repeating: 0, count: FieldNumbers.names.count + 1)

    static let damaged = LedgerStorageError(.damaged, "A chain of the ledger cannot be read")

    /// - Parameter start: The offset of the first byte to read.
    init(_ bytes: [UInt8], from start: Int) {
        self.bytes = bytes
        offset = start
    }

    /// Reads fields up to the zero at their end. First the offsets of all values are found, and then each field reads
    /// its value. The order of reading may therefore differ from the order of writing.
    ///
    /// - Parameter blank: The initial value. Its members that are not stored fields are kept.
    mutating func fields<Fields: CodedFields>(of blank: Fields) throws -> Fields {
        try findValues()
        let end = offset
        var fields = blank
        entries = Fields.layout.entries[...]
        try fields.fields(&self)
        offset = end
        return fields
    }

    /// Skips fields up to the zero at their end if a condition of some of their values holds.
    mutating func skipFields(if condition: (inout FieldReader) throws -> Bool) throws -> Bool {
        let start = offset
        try findValues()
        let end = offset
        let skips = try condition(&self)
        offset = skips ? end : start
        return skips
    }

    private mutating func findValues() throws {
        for number in values.indices { values[number] = 0 }
        while case let head = try count(), head != 0 {
            // Fields of a later version are skipped.
            if (1..<values.count).contains(head >> 2) { values[head >> 2] = offset << 2 | head & 3 }
            try skip(head & 3)
        }
    }

    mutating func field<Value: Storable>(_ name: StaticString, _ value: inout Value) throws {
        let stored = try stored(entries.popFirst() ?? 0)
        guard let found = Value(stored) else {
            throw LedgerStorageError(.damaged, "A chain of the ledger cannot be read: its field \(name)")
        }
        value = found
    }

    /// Reads an optional value. The value is `nil` if its first field is absent.
    mutating func group<Group: StoredFields>(_ group: inout Group?) throws {
        let count = entries.popFirst() ?? 0
        guard let first = entries.first, values[first] != 0 else {
            entries = entries.dropFirst(count)
            group = nil
            return
        }
        var fields = Group.blank
        try fields.fields(&self)
        group = fields
    }

    func texts(_ name: StaticString, _ value: inout Set<String>) {}

    /// The value of a field, by the number of its name; null if the field is absent.
    mutating func stored(_ number: Int) throws -> StoredValue {
        let value = values[number]
        guard value != 0 else { return .null }
        offset = value >> 2
        switch value & 3 {
        case 1: return .integer(try integer())
        case 2: return .text(try text())
        default: return .bytes(Array(bytes[try range()]))
        }
    }

    private mutating func skip(_ type: Int) throws {
        switch type {
        case 1: _ = try bits()
        case 2, 3: _ = try range()
        default: throw Self.damaged
        }
    }

    /// Reads the count of the items that follow, and returns their indices. Each item takes at least a byte, so a count
    /// above the number of remaining bytes is damage.
    mutating func items() throws -> Range<Int> {
        let count = try count()
        guard count <= bytes.count - offset else { throw Self.damaged }
        return 0..<count
    }

    mutating func texts() throws -> [String] { try items().map { _ in try text() } }

    mutating func text() throws -> String { String(decoding: bytes[try range()], as: UTF8.self) }

    mutating func integer() throws -> Int64 {
        let bits = try bits()
        return Int64(bitPattern: bits >> 1) ^ -Int64(bitPattern: bits & 1)
    }

    private mutating func count() throws -> Int {
        guard let count = Int(exactly: try bits()) else { throw Self.damaged }
        return count
    }

    /// Reads a count, skips as many bytes, and returns the offsets of these bytes.
    private mutating func range() throws -> Range<Int> {
        let count = try count()
        guard count <= bytes.count - offset else { throw Self.damaged }
        defer { offset += count }
        return offset..<(offset + count)
    }

    private mutating func bits() throws -> UInt64 {
        var value: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 70, by: 7) {
            guard offset < bytes.count else { break }
            let byte = bytes[offset]
            offset += 1
            value |= UInt64(byte & 0x7f) << shift
            if byte < 0x80 { return value }
        }
        throw Self.damaged
    }
}

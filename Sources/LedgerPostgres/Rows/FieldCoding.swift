// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

// The binary form of lists of stored fields: for each field that is not null its number with the type of its value,
// then the value; a zero at the end. Counts and integers are in groups of seven bits, the lowest first.

/// The number of each field's name in the binary form.
enum FieldNumbers {
    /// The name with number 1, and so on. A name is only ever appended.
    static let names = [
        "transactionId", "source", "signedDate", "evidence", "productId", "type", "subscriptionGroup", "purchaseDate",
        "expiresDate", "quantity", "isUpgraded", "revocationDate", "revocationReason", "revocationType",
        "revocationPercentage", "ownership", "appAccountToken", "offerType", "webOrderLineItemId", "transactionReason",
        "knownSince", "price", "currency", "offerIdentifier", "offerDiscountType", "offerPeriod", "storefront",
        "commitmentPeriod", "commitmentPeriods", "commitmentExpiresDate", "commitmentPrice", "revokedSeats",
        "erasedAt", "lastEventAt", "successor", "renewalSignedDate", "renewalEvidence", "autoRenewProductId",
        "autoRenewStatus", "expirationIntent", "isInBillingRetry", "gracePeriodExpiresDate", "priceIncreaseStatus",
        "renewalAppAccountToken", "renewalDate", "commitmentAutoRenewStatus", "commitmentAutoRenewProductId",
        "status", "publishedProductId", "until", "willRenew", "commitmentWillRenew", "isSubscription",
        "lastTransactionId", "lastExpiresDate", "isEntitling", "nextChange",
    ]

    /// - Throws: `LedgerStorageError` for a name that is not in the list.
    static func number(_ name: StaticString) throws -> Int {
        let number = name.withUTF8Buffer { bytes in
            var place = FieldNumbers.place(of: bytes)
            while slots[place].number != 0, !slots[place].name.elementsEqual(bytes) { place = (place + 1) & 0xff }
            return slots[place].number
        }
        guard number != 0 else {
            throw LedgerStorageError(.unavailable, "The field \(name) has no number in the binary form")
        }
        return number
    }

    /// A hash table of the names' bytes. Names that are hashed as texts take longer than the rest of reading a chain.
    private static let slots = {
        var slots = [(name: [UInt8], number: Int)](repeating: ([], 0), count: 256)
        for (name, number) in zip(names, 1...) {
            var place = Array(name.utf8).withUnsafeBufferPointer { FieldNumbers.place(of: $0) }
            while slots[place].number != 0 { place = (place + 1) & 0xff }
            slots[place] = (Array(name.utf8), number)
        }
        return slots
    }()

    private static func place(of bytes: UnsafeBufferPointer<UInt8>) -> Int {
        Int(bytes.reduce(UInt32(0)) { $0 &* 31 &+ UInt32($1) } & 0xff)
    }
}

/// Collects the numbers of a type's fields in their order.
private struct NumberCollector: FieldCoder {
    var numbers: [Int] = []

    static func numbers<Fields: StoredFields>(_: Fields.Type) throws -> [Int] {
        var (collector, blank) = (NumberCollector(), Fields.blank)
        try blank.fields(&collector)
        return collector.numbers
    }

    mutating func field(_ name: StaticString, _ value: inout some Storable) throws {
        numbers.append(try FieldNumbers.number(name))
    }

    mutating func group<Group: StoredFields>(_ group: inout Group?) throws {
        var blank = Group.blank
        try blank.fields(&self)
    }
}

// MARK: - Writing

struct FieldWriter: FieldCoder {
    private(set) var bytes: [UInt8]

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    mutating func append(_ fields: some StoredFields) throws {
        var fields = fields
        try fields.fields(&self)
        bytes.append(0)
    }

    mutating func field(_ name: StaticString, _ value: inout some Storable) throws {
        let number = try FieldNumbers.number(name)
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

    mutating func group<Group: StoredFields>(_ group: inout Group?) throws { try group?.fields(&self) }

    mutating func append(count: Int) { append(bits: UInt64(bitPattern: Int64(count))) }

    /// Small numbers of either sign take few bytes.
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

struct FieldReader {
    private var bytes: ArraySlice<UInt8>

    static let damaged = LedgerStorageError(.damaged, "A chain of the ledger cannot be read")

    init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
    }

    mutating func fields<Fields: StoredFields>(_: Fields.Type = Fields.self) throws -> Fields {
        var values = [StoredValue](repeating: .null, count: FieldNumbers.names.count + 1)
        while case let head = try count(), head != 0 {
            let value = try value(head & 3)
            // A later version may have more fields.
            if values.indices.contains(head >> 2) { values[head >> 2] = value }
        }
        var (found, fields) = (FoundFields(values: values), Fields.blank)
        try fields.fields(&found)
        return fields
    }

    private mutating func value(_ type: Int) throws -> StoredValue {
        switch type {
        case 1: .integer(try integer())
        case 2: .text(try text())
        case 3: .bytes(Array(try bytes(try count())))
        default: throw Self.damaged
        }
    }

    mutating func list<Item>(_ read: (inout FieldReader) throws -> Item) throws -> [Item] {
        let count = try count()
        // Each item takes a byte at least.
        guard count <= bytes.count else { throw Self.damaged }
        var items: [Item] = []
        for _ in 0..<count { items.append(try read(&self)) }
        return items
    }

    mutating func texts() throws -> [String] { try list { try $0.text() } }

    mutating func text() throws -> String { String(decoding: try bytes(try count()), as: UTF8.self) }

    mutating func integer() throws -> Int64 {
        let bits = try bits()
        return Int64(bitPattern: bits >> 1) ^ -Int64(bitPattern: bits & 1)
    }

    private mutating func count() throws -> Int {
        guard let count = Int(exactly: try bits()) else { throw Self.damaged }
        return count
    }

    private mutating func bytes(_ count: Int) throws -> ArraySlice<UInt8> {
        guard count <= bytes.count else { throw Self.damaged }
        defer { bytes = bytes.dropFirst(count) }
        return bytes.prefix(count)
    }

    private mutating func bits() throws -> UInt64 {
        var value: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 70, by: 7) {
            guard let byte = bytes.popFirst() else { break }
            value |= UInt64(byte & 0x7f) << shift
            if byte < 0x80 { return value }
        }
        throw Self.damaged
    }
}

/// The fields that were read, by number.
private struct FoundFields: FieldCoder {
    let values: [StoredValue]

    mutating func field<Value: Storable>(_ name: StaticString, _ value: inout Value) throws {
        guard let found = Value(values[try FieldNumbers.number(name)]) else {
            throw LedgerStorageError(.damaged, "A chain of the ledger cannot be read: its field \(name)")
        }
        value = found
    }

    mutating func group<Group: StoredFields>(_ group: inout Group?) throws {
        guard let first = try NumberCollector.numbers(Group.self).first, values[first] != .null else {
            return group = nil
        }
        var fields = Group.blank
        try fields.fields(&self)
        group = fields
    }
}

// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// The value of a parameter or a column. It is sent and received in PostgreSQL's binary format.
///
/// Every integer is sent as a `bigint`, because all integers of the schema have this type. PostgreSQL infers the types
/// of all parameters from the statement.
enum PostgresValue: Hashable, Sendable {
    case null
    case integer(Int64)
    case text(String)
    case bytes([UInt8])
    case texts([String])
    /// An array, with the type of its elements. Only parameters have this form.
    case list(ColumnType, [PostgresValue])

    init(_ stored: StoredValue) {
        switch stored {
        case .null: self = .null
        case .integer(let value): self = .integer(value)
        case .text(let value): self = .text(value)
        case .bytes(let value): self = .bytes(value)
        }
    }

    /// The value as a field of a ledger record; `nil` for an array, because no field is an array.
    var stored: StoredValue? {
        switch self {
        case .null: .null
        case .integer(let value): .integer(value)
        case .text(let value): .text(value)
        case .bytes(let value): .bytes(value)
        case .texts, .list: nil
        }
    }
}

// MARK: - Writing

extension PostgresValue {
    /// The approximate size of the binary form in bytes.
    var size: Int {
        switch self {
        case .null: 0
        case .integer: 8
        case .text(let text): text.utf8.count
        case .bytes(let bytes): bytes.count
        case .texts(let texts): texts.reduce(20) { $0 + 4 + $1.utf8.count }
        case .list(_, let values): values.reduce(20) { $0 + 4 + $1.size }
        }
    }

    /// Appends the binary form. NULL has none.
    ///
    /// - Returns: The number of bytes; `nil` for NULL.
    func append(to bytes: inout [UInt8]) -> Int? {
        let start = bytes.count
        switch self {
        case .null: return nil
        case .integer(let value): bytes.append(bigEndian: value)
        case .text(let text): StoredText.withBytes(of: text) { $0.withMemoryRebound(to: UInt8.self) { bytes += $0 } }
        case .bytes(let value): bytes += value
        case .texts(let texts): Self.append(texts.map { .text($0) }, .text, to: &bytes)
        case .list(let type, let values): Self.append(values, type, to: &bytes)
        }
        return bytes.count - start
    }

    /// Appends an array. Its header has the number of dimensions, a flag for NULL elements, the type of the elements,
    /// their count, and the first index. Each element follows its length, and NULL has the length -1.
    private static func append(_ elements: [PostgresValue], _ type: ColumnType, to bytes: inout [UInt8]) {
        bytes.append(bigEndian: Int32(elements.isEmpty ? 0 : 1))
        bytes.append(bigEndian: Int32(elements.contains(.null) ? 1 : 0))
        bytes.append(bigEndian: Int32(type.number))
        guard !elements.isEmpty else { return }
        bytes.append(bigEndian: Int32(clamping: elements.count))
        bytes.append(bigEndian: Int32(1))
        for element in elements {
            let offset = bytes.count
            bytes.append(bigEndian: Int32(-1))
            guard let length = element.append(to: &bytes) else { continue }
            withUnsafeBytes(of: Int32(clamping: length).bigEndian) {
                bytes.replaceSubrange(offset..<(offset + 4), with: $0)
            }
        }
    }
}

extension [UInt8] {
    fileprivate mutating func append(bigEndian number: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: number.bigEndian) { append(contentsOf: $0) }
    }
}

extension FixedWidthInteger {
    /// - Returns: `nil` unless the number of bytes is the size of the type.
    fileprivate init?(bigEndian bytes: some Collection<UInt8>) {
        guard bytes.count == Self.bitWidth / 8 else { return nil }
        self = bytes.reduce(0) { $0 << 8 | Self(truncatingIfNeeded: $1) }
    }
}

// MARK: - Reading

/// The types of parameters and of the elements of array parameters, by their names in SQL.
enum ColumnType: String, Sendable {
    case integer = "bigint"
    case text = "text"
    case bytes = "bytea"

    fileprivate var number: UInt32 {
        switch self {
        case .integer: PostgresType.int8
        case .text: PostgresType.text
        case .bytes: PostgresType.bytea
        }
    }
}

/// The OIDs of PostgreSQL's types.
private enum PostgresType {
    static let bool: UInt32 = 16
    static let bytea: UInt32 = 17
    static let int8: UInt32 = 20
    static let int4: UInt32 = 23
    static let text: UInt32 = 25
    static let texts: UInt32 = 1009
}

extension PostgresValue {
    /// Reads a column that is not NULL.
    ///
    /// - Parameter type: The OID of its type.
    /// - Returns: `nil` if no statement returns columns of the type, or if the bytes do not fit the type.
    init?(_ bytes: UnsafeRawBufferPointer, type: UInt32) {
        switch type {
        case PostgresType.bool:
            self = .integer(bytes.first == 1 ? 1 : 0)
        case PostgresType.bytea:
            self = .bytes(Array(bytes))
        case PostgresType.text:
            self = .text(StoredText.unescape(bytes.bindMemory(to: UInt8.self)))
        case PostgresType.texts:
            guard let texts = Self.texts(bytes) else { return nil }
            self = .texts(texts)
        case PostgresType.int8, PostgresType.int4:
            guard let value = Int64(bigEndian: bytes) ?? Int32(bigEndian: bytes).map(Int64.init) else { return nil }
            self = .integer(value)
        default: return nil
        }
    }

    private static func texts(_ bytes: UnsafeRawBufferPointer) -> [String]? {
        var rest = Slice(base: bytes, bounds: bytes.indices)
        func next(_ rest: inout Slice<UnsafeRawBufferPointer>) -> Int? {
            defer { rest = rest.dropFirst(4) }
            return Int32(bigEndian: rest.prefix(4)).map(Int.init)
        }
        guard let dimensions = next(&rest), next(&rest) != nil, next(&rest) != nil else { return nil }
        guard dimensions > 0 else { return [] }
        guard dimensions == 1, let count = next(&rest), next(&rest) != nil else { return nil }
        var texts: [String] = []
        for _ in 0..<max(0, count) {
            guard let length = next(&rest), length >= 0, length <= rest.count else { return nil }
            texts.append(
                StoredText.unescape(UnsafeRawBufferPointer(rebasing: rest.prefix(length)).bindMemory(to: UInt8.self)))
            rest = rest.dropFirst(length)
        }
        return texts
    }
}

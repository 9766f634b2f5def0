// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// A parameter or a column, as PostgreSQL sends it in its binary format.
///
/// All integers of the schema are `bigint`, so that the type of a parameter follows from the statement alone.
enum PostgresValue: Hashable, Sendable {
    case null
    case integer(Int64)
    case text(String)
    case bytes([UInt8])
    case texts([String])
    /// A column of several rows. Only a parameter has this form.
    case list(ColumnType, [PostgresValue])

    init(_ stored: StoredValue) {
        switch stored {
        case .null: self = .null
        case .integer(let value): self = .integer(value)
        case .text(let value): self = .text(value)
        case .bytes(let value): self = .bytes(value)
        }
    }

    /// `nil` for a list.
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
    /// The binary form; `nil` for NULL.
    var binary: [UInt8]? {
        switch self {
        case .null: nil
        case .integer(let value): value.bigEndianBytes
        case .text(let text): StoredText.escape(text)
        case .bytes(let bytes): bytes
        case .texts(let texts): Self.array(texts.map(StoredText.escape), .text)
        case .list(let type, let values): Self.array(values.map(\.binary), type)
        }
    }

    /// The dimensions, whether there are nulls, the type of the elements, their count, the first index, and each
    /// element with its length, which is -1 for NULL.
    private static func array(_ elements: [[UInt8]?], _ type: ColumnType) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(elements.reduce(20) { $0 + 4 + ($1?.count ?? 0) })
        func append(_ number: Int32) { withUnsafeBytes(of: number.bigEndian) { bytes += $0 } }
        append(elements.isEmpty ? 0 : 1)
        append(elements.contains { $0 == nil } ? 1 : 0)
        append(Int32(type.number))
        guard !elements.isEmpty else { return bytes }
        append(Int32(clamping: elements.count))
        append(1)
        for element in elements {
            append(element.map { Int32(clamping: $0.count) } ?? -1)
            if let element { bytes += element }
        }
        return bytes
    }
}

extension FixedWidthInteger {
    fileprivate var bigEndianBytes: [UInt8] { withUnsafeBytes(of: bigEndian) { Array($0) } }

    /// - Returns: `nil` unless there are as many bytes as the type has.
    fileprivate init?(bigEndian bytes: some Collection<UInt8>) {
        guard bytes.count == Self.bitWidth / 8 else { return nil }
        self = bytes.reduce(0) { $0 << 8 | Self(truncatingIfNeeded: $1) }
    }
}

// MARK: - Reading

/// The types of the columns that a ledger has, by their names in SQL.
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

/// The numbers of PostgreSQL's types.
private enum PostgresType {
    static let (bool, bytea, int8, int4, text, texts) = (
        16 as UInt32, 17 as UInt32, 20 as UInt32, 23 as UInt32,
        25 as UInt32, 1009 as UInt32
    )
}

extension PostgresValue {
    /// Reads a column that is not NULL.
    ///
    /// - Parameter type: The number of its type.
    /// - Returns: `nil` for a type that no table of a ledger has.
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
            texts.append(StoredText.unescape(Array(rest.prefix(length))))
            rest = rest.dropFirst(length)
        }
        return texts
    }
}

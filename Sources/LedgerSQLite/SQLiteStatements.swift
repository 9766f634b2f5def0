// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import GRDB
import GRDBSQLite
import PurchaseLedger

// Running statements, each of which is prepared once per connection.
//
// The statements are GRDB's, but bound and read with SQLite's own functions: GRDB's values, which are made for any type and
// checked row by row, cost more than what SQLite does.

extension SQLiteLedgerSession {
    /// The rows that a query finds. `read` runs no statement.
    func all<Value>(
        _ sql: String, _ arguments: [Binding], _ read: (inout RowReader) throws -> Value
    ) throws -> [Value] {
        var values: [Value] = []
        try step(sql, arguments) { statement in
            var columns = RowReader(statement)
            values.append(try read(&columns))
        }
        return values
    }

    /// The row that a query finds; `nil` if there is none.
    func first<Value>(
        _ sql: String, _ arguments: [Binding], _ read: (inout RowReader) throws -> Value
    ) throws -> Value? {
        try all(sql, arguments, read).first
    }

    func run(_ sql: String, _ arguments: [Binding] = []) throws {
        try step(sql, arguments) { _ in }
    }

    /// Inserts a row and returns its number.
    func insert(_ sql: String, _ arguments: [Binding]) throws -> Int64 {
        try run(sql, arguments)
        return connection.lastInsertedRowID
    }

    /// Runs a statement, and `row` for each of its rows.
    private func step(_ sql: String, _ arguments: [Binding], _ row: (OpaquePointer) throws -> Void) throws {
        do {
            let statement = try connection.cachedStatement(sql: sql).sqliteStatement
            var bytes: [UInt8] = []
            swap(&bytes, &scratch)
            defer {
                bytes.removeAll(keepingCapacity: true)
                swap(&bytes, &scratch)
            }
            let ends = arguments.map { $0.append(to: &bytes) }
            try bytes.withUnsafeBytes { bytes in
                defer {
                    sqlite3_reset(statement)
                    sqlite3_clear_bindings(statement)
                }
                for (index, argument) in arguments.enumerated() {
                    let bytes = bytes[(index == 0 ? 0 : ends[index - 1])..<ends[index]]
                    try check(
                        argument.bind(UnsafeRawBufferPointer(rebasing: bytes), to: statement, at: Int32(index + 1)))
                }
                try stepAll(statement, row)
            }
        } catch {
            throw SQLiteErrors.translate(error)
        }
    }

    private func stepAll(_ statement: OpaquePointer, _ row: (OpaquePointer) throws -> Void) throws {
        while true {
            let code = sqlite3_step(statement)
            if code == SQLITE_DONE { return }
            guard code == SQLITE_ROW else { throw error(code) }
            try row(statement)
        }
    }

    private func check(_ code: Int32) throws {
        guard code == SQLITE_OK else { throw error(code) }
    }

    private func error(_ code: Int32) -> DatabaseError {
        DatabaseError(
            resultCode: ResultCode(rawValue: code),
            message: connection.sqliteConnection.map { String(cString: sqlite3_errmsg($0)) })
    }
}

// MARK: - Values

/// A parameter of a statement.
enum Binding: Equatable {
    case null
    case int(Int64)
    case string(String)
    case bytes([UInt8])

    static func integer(_ value: Int64?) -> Binding { value.map(Binding.int) ?? .null }

    static func number(_ value: Int?) -> Binding { integer(value.map(Int64.init)) }

    static func flag(_ value: Bool?) -> Binding { integer(value.map { $0 ? 1 : 0 }) }

    static func text(_ value: String?) -> Binding { value.map(Binding.string) ?? .null }

    static func time(_ value: Timestamp?) -> Binding { integer(value?.milliseconds) }

    static func octets(_ value: [UInt8]?) -> Binding { value.map(Binding.bytes) ?? .null }

    /// Appends a text or octets as they are kept. Returns where they end.
    fileprivate func append(to scratch: inout [UInt8]) -> Int {
        switch self {
        case .null, .int: break
        case .string(let text): StoredText.append(text, to: &scratch)
        case .bytes(let bytes): scratch += bytes
        }
        return scratch.count
    }

    /// - Parameter bytes: Of a text or octets, which stay where they are while the statement runs.
    fileprivate func bind(_ bytes: UnsafeRawBufferPointer, to statement: OpaquePointer, at index: Int32) -> Int32 {
        switch self {
        case .null: return sqlite3_bind_null(statement, index)
        case .int(let value): return sqlite3_bind_int64(statement, index, value)
        case .string where bytes.isEmpty:
            return sqlite3_bind_text(statement, index, "", 0, unsafeBitCast(-1, to: sqlite3_destructor_type.self))
        case .string:
            let text = bytes.assumingMemoryBound(to: CChar.self)
            return sqlite3_bind_text(statement, index, text.baseAddress, Int32(text.count), nil)
        case .bytes where bytes.isEmpty: return sqlite3_bind_zeroblob(statement, index, 0)
        case .bytes: return sqlite3_bind_blob(statement, index, bytes.baseAddress, Int32(bytes.count), nil)
        }
    }
}

/// The columns of a row, read from left to right. Throws if one holds something else.
struct RowReader {
    private let statement: OpaquePointer
    private var index: Int32 = 0

    fileprivate init(_ statement: OpaquePointer) {
        self.statement = statement
    }

    /// The next column; `nil` if it is NULL.
    private mutating func next<Value>(_ type: Int32, _ value: (Int32) -> Value) throws -> Value? {
        defer { index += 1 }
        let found = sqlite3_column_type(statement, index)
        if found == SQLITE_NULL { return nil }
        guard found == type else { throw Self.unexpected }
        return value(index)
    }

    private static var unexpected: LedgerStorageError {
        SQLiteErrors.damaged("A row of the ledger holds something else than was written")
    }

    private func known<Value>(_ value: Value?) throws -> Value {
        guard let value else { throw Self.unexpected }
        return value
    }

    mutating func integerIfAny() throws -> Int64? {
        let statement = statement
        return try next(SQLITE_INTEGER) { sqlite3_column_int64(statement, $0) }
    }

    mutating func integer() throws -> Int64 { try known(integerIfAny()) }

    mutating func number() throws -> Int { Int(try integer()) }

    mutating func numberIfAny() throws -> Int? { try integerIfAny().map(Int.init) }

    mutating func flag() throws -> Bool { try integer() != 0 }

    mutating func flagIfAny() throws -> Bool? { try integerIfAny().map { $0 != 0 } }

    mutating func textIfAny() throws -> String? {
        let statement = statement
        return try next(SQLITE_TEXT) { index in
            let text = UnsafeBufferPointer(
                start: sqlite3_column_text(statement, index), count: Int(sqlite3_column_bytes(statement, index)))
            return StoredText.unescape(text)
        }
    }

    mutating func text() throws -> String { try known(textIfAny()) }

    /// A text that is one of ours.
    mutating func word<Word: RawRepresentable<String>>() throws -> Word { try Self.word(try text()) }

    mutating func wordIfAny<Word: RawRepresentable<String>>() throws -> Word? {
        guard let text = try textIfAny() else { return nil }
        return try Self.word(text)
    }

    private static func word<Word: RawRepresentable<String>>(_ text: String) throws -> Word {
        guard let word = Word(rawValue: text) else { throw SQLiteErrors.damaged("The ledger says \(text)") }
        return word
    }

    mutating func time() throws -> Timestamp { Timestamp(milliseconds: try integer()) }

    mutating func timeIfAny() throws -> Timestamp? { try integerIfAny().map(Timestamp.init(milliseconds:)) }

    mutating func octets() throws -> [UInt8] { try known(octetsIfAny()) }

    mutating func octetsIfAny() throws -> [UInt8]? {
        let statement = statement
        return try next(SQLITE_BLOB) { index in
            Array(
                UnsafeRawBufferPointer(
                    start: sqlite3_column_blob(statement, index), count: Int(sqlite3_column_bytes(statement, index))))
        }
    }

    mutating func provenance() throws -> Provenance { try known(provenanceIfAny()) }

    /// Two columns.
    mutating func provenanceIfAny() throws -> Provenance? {
        guard let signedDate = try timeIfAny() else {
            skip(1)
            return nil
        }
        guard let evidence = EvidenceID(bytes: try octets()) else {
            throw SQLiteErrors.damaged("The ledger names a document by something else than its digest")
        }
        return Provenance(signedDate: signedDate, evidence: evidence)
    }

    mutating func skip(_ count: Int32) { index += count }
}

/// SQLite's texts end at a NUL, so that two texts which begin alike could be taken for one: NUL is written as U+0001 `0`, and
/// U+0001 as U+0001 `1`.
private enum StoredText {
    private static let mark: UInt8 = 1

    static func append(_ text: String, to bytes: inout [UInt8]) {
        var text = text
        text.withUTF8 { text in
            guard text.contains(where: { $0 <= mark }) else { return bytes.append(contentsOf: text) }
            for byte in text { bytes += byte <= mark ? [mark, UInt8(ascii: "0") + byte] : [byte] }
        }
    }

    static func unescape(_ text: UnsafeBufferPointer<UInt8>) -> String {
        guard text.contains(mark) else { return String(decoding: text, as: UTF8.self) }
        var bytes: [UInt8] = []
        var isMarked = false
        for byte in text {
            if isMarked {
                bytes.append(byte == UInt8(ascii: "0") ? 0 : mark)
            } else if byte != mark {
                bytes.append(byte)
            }
            isMarked = !isMarked && byte == mark
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

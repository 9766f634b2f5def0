// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import GRDB
import PurchaseLedger

/// A connection within one transaction: runs statements, each of which is prepared once per connection.
///
/// After an error of SQLite's it does nothing more. A work that goes on all the same must not commit half of what it did.
final class LedgerTables {
    private let connection: Database
    private(set) var failure: (any Error)?
    /// The numbers of apps, scopes and chains that this transaction has met.
    var known = KnownNumbers()

    init(_ connection: Database) {
        self.connection = connection
    }

    /// The rows that a query finds.
    func all<Value>(
        _ sql: String, _ arguments: [DatabaseValue], _ read: (inout Columns) throws -> Value
    ) throws -> [Value] {
        try attempt {
            let rows = try Row.fetchCursor(connection.cachedStatement(sql: sql), arguments: .init(arguments))
            var values: [Value] = []
            while let row = try rows.next() {
                var columns = Columns(row)
                values.append(try read(&columns))
            }
            return values
        }
    }

    /// The row that a query finds; `nil` where there is none.
    func first<Value>(
        _ sql: String, _ arguments: [DatabaseValue], _ read: (inout Columns) throws -> Value
    ) throws -> Value? {
        try all(sql, arguments, read).first
    }

    func run(_ sql: String, _ arguments: [DatabaseValue] = []) throws {
        try attempt { try connection.cachedStatement(sql: sql).execute(arguments: .init(arguments)) }
    }

    /// Inserts a row and returns its number.
    func insert(_ sql: String, _ arguments: [DatabaseValue]) throws -> Int64 {
        try run(sql, arguments)
        return connection.lastInsertedRowID
    }

    private func attempt<Value>(_ body: () throws -> Value) throws -> Value {
        if let failure { throw failure }
        do {
            return try body()
        } catch {
            let failure = SQLiteErrors.translate(error)
            self.failure = failure
            throw failure
        }
    }
}

// MARK: - Values

/// The columns of a row, read from left to right. Throws where one holds something else.
struct Columns {
    private let row: Row
    private var index = 0

    init(_ row: Row) {
        self.row = row
    }

    private mutating func next<Value: DatabaseValueConvertible & StatementColumnConvertible>() throws -> Value {
        defer { index += 1 }
        return try row.decode(Value.self, atIndex: index)
    }

    mutating func integer() throws -> Int64 { try next() }

    mutating func integerIfAny() throws -> Int64? { try next() }

    mutating func number() throws -> Int { try next() }

    mutating func numberIfAny() throws -> Int? { try next() }

    mutating func flag() throws -> Bool { try next() }

    mutating func flagIfAny() throws -> Bool? { try next() }

    mutating func text() throws -> String { StoredText.unescape(try next()) }

    mutating func textIfAny() throws -> String? {
        let text: String? = try next()
        return text.map(StoredText.unescape)
    }

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

    mutating func time() throws -> Timestamp { Timestamp(milliseconds: try next()) }

    mutating func timeIfAny() throws -> Timestamp? {
        let milliseconds: Int64? = try next()
        return milliseconds.map(Timestamp.init(milliseconds:))
    }

    mutating func octets() throws -> [UInt8] {
        let data: Data = try next()
        return Array(data)
    }

    mutating func provenance() throws -> Provenance {
        let signedDate = try time()
        guard let evidence = EvidenceID(octets: try octets()) else {
            throw SQLiteErrors.damaged("The ledger names a document by something else than its digest")
        }
        return Provenance(signedDate: signedDate, evidence: evidence)
    }
}

extension DatabaseValue {
    static func integer(_ value: Int64?) -> DatabaseValue { value.databaseValue }

    static func number(_ value: Int?) -> DatabaseValue { value.databaseValue }

    static func flag(_ value: Bool?) -> DatabaseValue { value.databaseValue }

    static func text(_ value: String?) -> DatabaseValue { value.map(StoredText.escape).databaseValue }

    static func time(_ value: Timestamp?) -> DatabaseValue { (value?.milliseconds).databaseValue }

    static func octets(_ value: [UInt8]) -> DatabaseValue { Data(value).databaseValue }
}

/// SQLite's texts end at a NUL, so that two texts which begin alike could be taken for one: NUL is written as U+0001 `0`, and
/// U+0001 as U+0001 `1`.
private enum StoredText {
    private static let mark: UInt8 = 1

    static func escape(_ text: String) -> String {
        guard text.utf8.contains(where: { $0 <= mark }) else { return text }
        let bytes = text.utf8.flatMap { $0 <= mark ? [mark, UInt8(ascii: "0") + $0] : [$0] }
        return String(decoding: bytes, as: UTF8.self)
    }

    static func unescape(_ text: String) -> String {
        guard text.utf8.contains(mark) else { return text }
        var bytes: [UInt8] = []
        var isMarked = false
        for byte in text.utf8 {
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

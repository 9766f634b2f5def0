// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import GRDB
import GRDBSQLite
import PurchaseLedger
import Synchronization

/// Runs SQL statements. Each statement is prepared once per connection.
///
/// GRDB prepares and caches the statements, and ``StatementTable`` finds them. SQLite's own functions bind parameters
/// and read columns. If a column has an unexpected type, as in a damaged file, GRDB's functions would convert the
/// value or end the process.
protocol StatementRunner {
    var connection: Database { get }
    var statements: StatementTable { get }
}

/// Finds the statements that a connection prepared. GRDB would hash their text, which takes longer than many run. It
/// keeps them: they end with their connection, or when its schema changes. Used only on the connection's queue.
final class StatementTable: @unchecked Sendable {
    private struct Place {
        var sql = ""
        weak var statement: Statement?
    }

    /// A few times the number of the ledger's statements. Of two with the same place, the last used has it.
    private static let count = 512
    private var places = [Place](repeating: Place(), count: count)

    func statement(_ sql: String, on connection: Database) throws -> Statement {
        let place = Self.place(of: sql)
        if places[place].sql == sql, let known = places[place].statement { return known }
        let statement = try connection.cachedStatement(sql: sql)
        places[place] = Place(sql: sql, statement: statement)
        return statement
    }

    /// Computed from the length and some twenty bytes.
    private static func place(of sql: String) -> Int {
        var sql = sql
        return sql.withUTF8 { bytes in
            var hash = UInt(bitPattern: bytes.count)
            for index in stride(from: bytes.count - 1, through: 0, by: -max(8, bytes.count / 16)) {
                hash = (hash &* 31) ^ UInt(bytes[index])
            }
            return Int((hash ^ hash >> 9) % UInt(count))
        }
    }
}

/// The tables of a ledger's connections. A connection may get that of a closed one, whose statements are gone.
final class StatementTables: Sendable {
    private let tables = Mutex<[ObjectIdentifier: StatementTable]>([:])

    subscript(connection: Database) -> StatementTable {
        tables.withLock { tables in
            if let known = tables[ObjectIdentifier(connection)] { return known }
            let new = StatementTable()
            tables[ObjectIdentifier(connection)] = new
            return new
        }
    }
}

extension StatementRunner {
    /// The values that `read` returns for the rows of a query. `read` must not run a statement itself.
    func all<Value>(
        _ sql: String, _ parameters: [StoredValue], _ read: (inout RowReader) throws -> Value
    ) throws -> [Value] {
        var values: [Value] = []
        try step(sql, parameters) { statement in
            var row = RowReader(statement)
            values.append(try read(&row))
        }
        return values
    }

    /// The value that `read` returns for the first row of a query; `nil` if there is no row.
    func first<Value>(
        _ sql: String, _ parameters: [StoredValue], _ read: (inout RowReader) throws -> Value
    ) throws -> Value? {
        try all(sql, parameters, read).first
    }

    func run(_ sql: String, _ parameters: [StoredValue] = []) throws {
        try step(sql, parameters) { _ in }
    }

    /// Inserts a row and returns its number.
    func insert(_ sql: String, _ parameters: [StoredValue]) throws -> Int64 {
        try run(sql, parameters)
        return connection.lastInsertedRowID
    }

    /// Runs a statement, and calls `row` for each row.
    private func step(_ sql: String, _ parameters: [StoredValue], _ row: (OpaquePointer) throws -> Void) throws {
        do {
            let statement = try statements.statement(sql, on: connection).sqliteStatement
            defer {
                sqlite3_reset(statement)
                sqlite3_clear_bindings(statement)
            }
            for (index, parameter) in parameters.enumerated() {
                let code = parameter.bind(to: statement, at: Int32(index + 1))
                guard code == SQLITE_OK else { throw error(code) }
            }
            while case let code = sqlite3_step(statement), code != SQLITE_DONE {
                guard code == SQLITE_ROW else { throw error(code) }
                try row(statement)
            }
        } catch {
            throw SQLiteErrors.translate(error)
        }
    }

    private func error(_ code: Int32) -> DatabaseError {
        DatabaseError(
            resultCode: ResultCode(rawValue: code),
            message: connection.sqliteConnection.map { String(cString: sqlite3_errmsg($0)) })
    }
}

// MARK: - Values

extension StoredValue {
    /// Binds a parameter. SQLite copies texts and blobs.
    fileprivate func bind(to statement: OpaquePointer, at index: Int32) -> Int32 {
        let copied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
        switch self {
        case .null: return sqlite3_bind_null(statement, index)
        case .integer(let value): return sqlite3_bind_int64(statement, index, value)
        // An empty buffer may have no address, and SQLite would then bind NULL instead of an empty text.
        case .text(let text) where text.isEmpty: return sqlite3_bind_text(statement, index, "", 0, copied)
        case .text(let text):
            return StoredText.withBytes(of: text) {
                sqlite3_bind_text(statement, index, $0.baseAddress, Int32($0.count), copied)
            }
        case .bytes(let bytes) where bytes.isEmpty: return sqlite3_bind_zeroblob(statement, index, 0)
        case .bytes(let bytes):
            return bytes.withUnsafeBytes {
                sqlite3_bind_blob(statement, index, $0.baseAddress, Int32($0.count), copied)
            }
        }
    }

    /// A column of the current row; `nil` for a floating-point number.
    fileprivate init?(_ statement: OpaquePointer, _ index: Int32) {
        switch sqlite3_column_type(statement, index) {
        case SQLITE_NULL: self = .null
        case SQLITE_INTEGER: self = .integer(sqlite3_column_int64(statement, index))
        case SQLITE_TEXT:
            let text = sqlite3_column_text(statement, index)
            let count = Int(sqlite3_column_bytes(statement, index))
            self = .text(StoredText.unescape(UnsafeBufferPointer(start: text, count: count)))
        case SQLITE_BLOB:
            let bytes = sqlite3_column_blob(statement, index)
            let count = Int(sqlite3_column_bytes(statement, index))
            self = .bytes(Array(UnsafeRawBufferPointer(start: bytes, count: count)))
        default: return nil
        }
    }
}

/// The columns of the current row.
struct RowReader: StoredRow {
    private let statement: OpaquePointer
    private var index: Int32 = 0

    fileprivate init(_ statement: OpaquePointer) {
        self.statement = statement
    }

    var isNextNull: Bool { sqlite3_column_type(statement, index) == SQLITE_NULL }

    mutating func nextStored() -> StoredValue? {
        defer { index += 1 }
        return StoredValue(statement, index)
    }
}

// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// A statement with its parameters.
struct PostgresStatement: Sendable {
    /// The text, in which `$1` is the first parameter. Texts are constants, since each is prepared once per connection.
    var sql: String
    var parameters: [PostgresValue]
    /// Whether it is run often, so that preparing it pays.
    var isPrepared = true

    init(_ sql: String, _ parameters: [PostgresValue] = []) {
        self.sql = sql
        self.parameters = parameters
    }

    /// Makes a statement about one or several keys. Several are in a subquery, so that the planner does not see how
    /// many there are: for fewer than its estimate it would plan the statement anew each time, which takes longer than
    /// to run it.
    ///
    /// - Parameters:
    ///   - sql: The text up to the column with the keys.
    ///   - parameters: Its parameters besides.
    init(_ sql: String, _ keys: [String], _ parameters: [PostgresValue]) {
        let placeholder = "$\(parameters.count + 1)"
        if keys.count == 1 {
            self.init("\(sql) = \(placeholder)", parameters + keys.map { .text($0) })
        } else {
            self.init("\(sql) = ANY((SELECT \(placeholder)::text[])::text[])", parameters + [.texts(keys)])
        }
    }

    /// A statement that is run once, or refers to tables that the statements before it make.
    static func once(_ sql: String, _ parameters: [PostgresValue] = []) -> PostgresStatement {
        var statement = PostgresStatement(sql, parameters)
        statement.isPrepared = false
        return statement
    }

    /// Lets each of the statements after it take this long, in the same transaction.
    static func statementLimit(_ limit: Duration) -> PostgresStatement { set("statement_timeout", limit) }

    /// Lets each of the statements after it wait this long for a lock, in the same transaction.
    static func lockLimit(_ limit: Duration) -> PostgresStatement { set("lock_timeout", limit) }

    private static func set(_ name: String, _ limit: Duration) -> PostgresStatement {
        PostgresStatement("SELECT set_config('\(name)', $1, true)", [.text("\(limit.milliseconds)")])
    }

    static let commit = PostgresStatement("COMMIT")
    static let rollback = once("ROLLBACK")
}

/// Statements that are sent together and answered together: one round trip.
struct PostgresRequest: Sendable {
    /// What is sent, in order.
    private(set) var statements: [PostgresStatement]
    /// How long the answer may take once the request was sent; `nil` for ``PostgresLimits/request``.
    let limit: Duration?
    /// Whether it may change anything, so that its commit matters.
    let writes: Bool
    /// The epoch of the connections on which the request may be sent, see ``ConnectionPool/epoch``; `nil` for any.
    private(set) var epoch: Int?
    private let begin: PostgresStatement
    private let own: [PostgresStatement]
    /// What comes before the caller's own statements, in the same transaction.
    private var first: [PostgresStatement]

    /// Statements that are committed together, or one that is committed by itself.
    ///
    /// - Parameters:
    ///   - limit: How long the answer may take. If that is longer than other requests, each statement may take as long.
    ///   - lockLimit: How long each may wait for a lock of another transaction.
    static func transaction(
        _ statements: [PostgresStatement], limit: Duration? = nil, lockLimit: Duration? = nil
    ) -> PostgresRequest {
        PostgresRequest(statements, "BEGIN", limit, [lockLimit.map(PostgresStatement.lockLimit)], writes: true)
    }

    /// Statements that all read the same state. One alone needs no transaction for that.
    ///
    /// - Parameters:
    ///   - limit: How long the answer may take. If that is longer than other requests, each statement may take as long.
    ///   - statementLimit: How long each statement may take.
    static func snapshot(
        _ statements: [PostgresStatement], limit: Duration? = nil, statementLimit: Duration? = nil
    ) -> PostgresRequest {
        PostgresRequest(
            statements, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", limit,
            [statementLimit.map(PostgresStatement.statementLimit)], writes: false)
    }

    private init(
        _ statements: [PostgresStatement], _ begin: String, _ limit: Duration?, _ limits: [PostgresStatement?],
        writes: Bool
    ) {
        self.limit = limit
        self.writes = writes
        own = statements
        self.statements = []
        self.begin = PostgresStatement(begin)
        let ownLimit = limit.flatMap { $0 > PostgresLimits().statement ? PostgresStatement.statementLimit($0) : nil }
        first = ([ownLimit] + limits).compactMap(\.self)
        arrange()
    }

    private mutating func arrange() { statements = isBlock ? [begin] + first + own + [.commit] : own }

    /// The same request, if it is of an epoch, with a check before its own statements.
    func checking(_ check: PostgresStatement?) -> PostgresRequest {
        guard epoch != nil, let check, first.last?.sql != check.sql else { return self }
        var request = self
        request.first.append(check)
        request.arrange()
        return request
    }

    /// The same request, to be sent only while the epoch lasts: it contains numbers that the database gave in it.
    func during(_ epoch: Int) -> PostgresRequest {
        var request = self
        request.epoch = epoch
        return request
    }

    /// Whether its transaction is a block. Without one, it ends after the only statement.
    var isBlock: Bool { own.count > 1 || !first.isEmpty }

    /// The answers to the caller's own statements.
    func answers(_ all: [PostgresRows]) -> [PostgresRows] {
        isBlock ? Array(all.dropFirst(1 + first.count).dropLast()) : all
    }
}

/// The rows that a statement returned.
struct PostgresRows: Sendable {
    var rows: [[PostgresValue]] = []

    /// Reads each row.
    func map<Value>(_ read: (inout PostgresRow) throws -> Value) throws -> [Value] {
        try rows.map { columns in
            var row = PostgresRow(columns: columns[...])
            return try read(&row)
        }
    }
}

/// The columns of a row.
struct PostgresRow: StoredRow {
    fileprivate var columns: ArraySlice<PostgresValue>

    var isNextNull: Bool { columns.first == .null }

    mutating func nextStored() -> StoredValue? { columns.popFirst()?.stored }

    mutating func texts() throws -> [String] {
        guard case .texts(let texts) = columns.popFirst() else { throw Self.damaged }
        return texts
    }

    private static let damaged = LedgerStorageError(.damaged, "A row of the ledger has a value that was not written")
}

extension Storable {
    var parameter: PostgresValue { PostgresValue(stored) }
}

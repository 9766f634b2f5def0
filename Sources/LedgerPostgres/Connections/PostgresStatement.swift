// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// A statement with its parameters.
struct PostgresStatement: Sendable {
    /// The text of the statement, in which `$1` is the first parameter. The text of a prepared statement does not vary
    /// with the values, because each connection has to prepare every different text.
    var sql: String
    var parameters: [PostgresValue]
    /// Whether the statement runs often enough to be worth preparing.
    var isPrepared = true

    init(_ sql: String, _ parameters: [PostgresValue] = []) {
        self.sql = sql
        self.parameters = parameters
    }

    /// Makes a statement about one or more keys. Several keys go into a subquery, which hides their number from the
    /// planner. If PostgreSQL saw fewer keys than its generic plan assumes, a plan for these keys would seem cheaper,
    /// and PostgreSQL would plan the statement again at each use. Planning takes longer than running the statement.
    ///
    /// - Parameters:
    ///   - sql: The text up to and including the column of the keys.
    ///   - parameters: The parameters before the keys.
    init(_ sql: String, _ keys: [String], _ parameters: [PostgresValue]) {
        let placeholder = "$\(parameters.count + 1)"
        if keys.count == 1 {
            self.init("\(sql) = \(placeholder)", parameters + keys.map { .text($0) })
        } else {
            self.init("\(sql) = ANY((SELECT \(placeholder)::text[])::text[])", parameters + [.texts(keys)])
        }
    }

    /// A statement that is not prepared, because it runs rarely, or because earlier statements of its request create
    /// its tables.
    static func once(_ sql: String, _ parameters: [PostgresValue] = []) -> PostgresStatement {
        var statement = PostgresStatement(sql, parameters)
        statement.isPrepared = false
        return statement
    }

    /// Sets the timeout of each later statement in the same transaction.
    static func statementLimit(_ limit: Duration) -> PostgresStatement { set("statement_timeout", limit) }

    /// Sets the lock timeout of each later statement in the same transaction.
    static func lockLimit(_ limit: Duration) -> PostgresStatement { set("lock_timeout", limit) }

    private static func set(_ name: String, _ limit: Duration) -> PostgresStatement {
        PostgresStatement("SELECT set_config('\(name)', $1, true)", [.text("\(limit.milliseconds)")])
    }

    static let commit = PostgresStatement("COMMIT")
    static let rollback = once("ROLLBACK")
}

/// Statements sent together and answered together, in a single round trip.
struct PostgresRequest: Sendable {
    /// The statements to send, in order.
    private(set) var statements: [PostgresStatement]
    /// The timeout of the answer, counted from the sending; `nil` for ``PostgresLimits/request``.
    let limit: Duration?
    /// Whether the request may write, so that a warning at its commit matters.
    let writes: Bool
    /// Only a connection opened in this epoch may send the request, see ``ConnectionOpener/epoch``; `nil` if any
    /// connection may.
    private(set) var epoch: Int?
    private let begin: PostgresStatement
    private let own: [PostgresStatement]
    /// The statements before the caller's statements in the same transaction.
    private var first: [PostgresStatement]

    /// Statements committed together. A single statement needs no block (`BEGIN` … `COMMIT`), unless other statements
    /// must precede it, such as a statement that sets a timeout.
    ///
    /// - Parameters:
    ///   - limit: The timeout of the answer. A limit above the default statement timeout replaces that timeout.
    ///   - lockLimit: The lock timeout of each statement.
    static func transaction(
        _ statements: [PostgresStatement], limit: Duration? = nil, lockLimit: Duration? = nil
    ) -> PostgresRequest {
        PostgresRequest(statements, "BEGIN", limit, [lockLimit.map(PostgresStatement.lockLimit)], writes: true)
    }

    /// Statements that all read the same state of the database. A single statement needs no block (`BEGIN` … `COMMIT`),
    /// unless other statements must precede it, such as a statement that sets a timeout.
    ///
    /// - Parameters:
    ///   - limit: The timeout of the answer. A limit above the default statement timeout replaces that timeout.
    ///   - statementLimit: The timeout of each statement.
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

    /// The request with a check of the database's identity before the caller's statements, see
    /// ``DatabaseIdentity/check(_:)``. A request that belongs to no epoch stays unchanged.
    func checking(_ check: PostgresStatement?) -> PostgresRequest {
        guard epoch != nil, let check, first.last?.sql != check.sql else { return self }
        var request = self
        request.first.append(check)
        request.arrange()
        return request
    }

    /// The request, to be sent only in the given epoch, for example because it contains numbers read in this epoch.
    func during(_ epoch: Int) -> PostgresRequest {
        var request = self
        request.epoch = epoch
        return request
    }

    /// Whether the statements are in a transaction block, between `BEGIN` and `COMMIT`. Without a block, the single
    /// statement is a transaction of its own.
    var isBlock: Bool { own.count > 1 || !first.isEmpty }

    /// The results of the caller's own statements.
    func answers(_ all: [PostgresRows]) -> [PostgresRows] {
        isBlock ? Array(all.dropFirst(1 + first.count).dropLast()) : all
    }
}

/// The rows returned by a statement.
struct PostgresRows: Sendable {
    var rows: [[PostgresValue]] = []

    /// Maps each row to a value.
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

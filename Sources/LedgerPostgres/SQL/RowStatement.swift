// SPDX-License-Identifier: Apache-2.0

/// A statement about rows, with different texts for few and for many rows. For many rows each column is an array
/// parameter. For few rows each value is a parameter, because unpacking arrays takes time: for three rows as long as
/// inserting a row.
struct RowStatement: Sendable {
    /// The texts for one row, two rows and so on, in which each value is a parameter.
    private let fewRows: [String]
    /// The text for more rows.
    private let many: String
    private let columns: [ColumnType]

    /// - Parameter columns: The types of the parameters of `one`. The parameters of `many` are arrays of these types.
    init(one: String, many: String, _ columns: [ColumnType]) {
        self.init(fewRows: [one], many: many, columns)
    }

    private init(fewRows: [String], many: String, _ columns: [ColumnType]) {
        self.fewRows = fewRows
        self.many = many
        self.columns = columns
    }

    /// The largest number of rows with a text of their own: a notification and its two signed parts, a transaction and
    /// a renewal info, are three documents. Larger numbers of rows have no text of their own, because each connection
    /// must prepare each text.
    private static let maxList = 3

    /// A statement that reads the rows as a table.
    ///
    /// - Parameters:
    ///   - parameters: The number of parameters before the rows.
    ///   - text: Makes the text of the statement from the text of the table.
    static func reading(_ columns: [ColumnType], after parameters: Int = 0, _ text: (String) -> String) -> RowStatement
    {
        // Subqueries hide the parameters from the planner, which would otherwise plan the statement anew at each use,
        // see ``PostgresStatement``. A list of several rows needs no subqueries, because PostgreSQL treats the list as
        // a table, not as constants.
        func subqueries(_ suffix: String) -> String {
            columns.enumerated().map { "(SELECT $\(parameters + $0 + 1)::\($1.rawValue)\(suffix))" }
                .joined(separator: ", ")
        }
        let fewRows = ["(\(subqueries("")))"] + (2...maxList).map { rows($0, columns, after: parameters) }
        return RowStatement(
            fewRows: fewRows.map { text("(VALUES \($0))") }, many: text("unnest(\(subqueries("[]")))"), columns)
    }

    /// Rows of parameters, separated by commas.
    private static func rows(_ count: Int, _ columns: [ColumnType], after parameters: Int = 0) -> String {
        (0..<count).map { row in
            let values = columns.enumerated().map { column, type in
                "$\(parameters + row * columns.count + column + 1)::\(type.rawValue)"
            }
            return "(\(values.joined(separator: ", ")))"
        }.joined(separator: ", ")
    }

    /// An `INSERT` statement.
    ///
    /// - Parameter conflict: The text after the rows, such as `ON CONFLICT DO NOTHING`.
    static func insert(
        into table: String, _ columns: [(name: String, type: ColumnType)], _ conflict: String = ""
    ) -> RowStatement {
        let start = "INSERT INTO \(table) (\(columns.map(\.name).joined(separator: ", ")))"
        let placeholders = columns.indices.map { "$\($0 + 1)" }
        // Several `unnest` calls in the select list unpack their arrays in step, a row at a time. `FROM unnest(…)`
        // would first copy all rows.
        let arrays = zip(placeholders, columns).map { "unnest(\($0)::\($1.type.rawValue)[])" }
        let types = columns.map(\.type)
        return RowStatement(
            fewRows: (1...maxList).map { "\(start) VALUES \(rows($0, types)) \(conflict)" },
            many: "\(start) SELECT \(arrays.joined(separator: ", ")) \(conflict)", types)
    }

    func isSame(as other: RowStatement) -> Bool { fewRows[0] == other.fewRows[0] }

    /// The statements for some rows, in the order of the rows.
    ///
    /// - Parameter shares: Whether the rows may share a statement.
    func statements(_ rows: [[PostgresValue]], shares: Bool) -> [PostgresStatement] {
        guard shares, rows.count > 1 else { return rows.map { statement([$0]) } }
        return [statement(rows)]
    }

    /// The statement for at least one row.
    ///
    /// - Parameter parameters: The parameters before the rows.
    func statement(_ rows: [[PostgresValue]], after parameters: [PostgresValue] = []) -> PostgresStatement {
        guard rows.count > fewRows.count else {
            return PostgresStatement(fewRows[max(0, rows.count - 1)], parameters + rows.flatMap(\.self))
        }
        let arrays = columns.enumerated().map { column, type in PostgresValue.list(type, rows.map { $0[column] }) }
        return PostgresStatement(many, parameters + arrays)
    }
}

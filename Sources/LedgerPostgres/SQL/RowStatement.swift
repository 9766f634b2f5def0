// SPDX-License-Identifier: Apache-2.0

/// What is done with a row: a statement for one row, and one for many rows, each column of which is an array.
struct RowStatement: Sendable {
    private let one: String
    private let many: String
    private let columns: [ColumnType]

    /// - Parameter columns: The types of the parameters of `one`. Those of `many` are arrays of them.
    init(one: String, many: String, _ columns: [ColumnType]) {
        (self.one, self.many, self.columns) = (one, many, columns)
    }

    /// An `INSERT`.
    ///
    /// - Parameter conflict: What follows the rows. `excluded` is the new row.
    static func insert(
        into table: String, _ columns: [(name: String, type: ColumnType)], _ conflict: String = ""
    ) -> RowStatement {
        let start = "INSERT INTO \(table) (\(columns.map(\.name).joined(separator: ", ")))"
        let places = columns.indices.map { "$\($0 + 1)" }
        // In the list of columns, the arrays are read in step. `FROM unnest(…)` would copy all rows first.
        let arrays = zip(places, columns).map { "unnest(\($0)::\($1.type.rawValue)[])" }
        return RowStatement(
            one: "\(start) VALUES (\(places.joined(separator: ", "))) \(conflict)",
            many: "\(start) SELECT \(arrays.joined(separator: ", ")) \(conflict)", columns.map(\.type))
    }

    func isSame(as other: RowStatement) -> Bool { one == other.one }

    /// The statements for some rows, which keep their order.
    ///
    /// - Parameter shares: Whether all of them may share one statement.
    func statements(_ rows: [[PostgresValue]], shares: Bool) -> [PostgresStatement] {
        guard shares, rows.count > 1 else { return rows.map { PostgresStatement(one, $0) } }
        let arrays = columns.enumerated().map { place, type in PostgresValue.list(type, rows.map { $0[place] }) }
        return [PostgresStatement(many, arrays)]
    }
}

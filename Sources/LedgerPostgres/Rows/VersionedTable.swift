// SPDX-License-Identifier: Apache-2.0

/// The statements about one row of a table whose rows have versions. A row that was loaded must have its version still.
struct VersionedTable: Sendable {
    /// Adds a row: its key, version and values.
    let insert: String
    /// Replaces a row: its key, new version, values, and the version that was loaded.
    let update: String
    /// Deletes a row: its key, and the version that was loaded.
    let delete: String
    /// Locks a row against changes: its key, and the version that was loaded.
    let check: String
    /// Adds a row with a key alone.
    let reserve: String
    /// Deletes the row that ``reserve`` has added.
    let release: String

    /// - Parameters:
    ///   - key: The columns of the key.
    ///   - values: The other columns besides `version`, each with what follows its parameter, and with what a row has
    ///     there that has a key alone; `nil` for NULL.
    init(_ name: String, key: [String], values: [(name: String, cast: String, empty: String?)]) {
        let table = "quittance.\(name)"
        let version = key.count + 1
        let placeholders = key.indices.map { "$\($0 + 1)" }
        let parameters = ["$\(version)"] + values.enumerated().map { "$\(version + $0 + 1)\($1.cast)" }
        let columns = ["version"] + values.map(\.name)
        let isKey = zip(key, placeholders).map { "\($0) = \($1)" }.joined(separator: " AND ")
        let isLoaded = "\(isKey) AND version = $\(version)"
        let set = zip(columns, parameters).map { "\($0) = \($1)" }.joined(separator: ", ")
        insert = Self.insert(into: table, key + columns, placeholders + parameters)
        update = """
            WITH met AS (
                UPDATE \(table) SET \(set) WHERE \(isKey) AND version = $\(version + columns.count) RETURNING 1)
            \(Conflict.unlessAny("met"))
            """
        delete = "WITH met AS (DELETE FROM \(table) WHERE \(isLoaded) RETURNING 1) \(Conflict.unlessAny("met"))"
        check = "WITH met AS (SELECT 1 FROM \(table) WHERE \(isLoaded) FOR SHARE) \(Conflict.unlessAny("met"))"
        let needed = [("version", "0")] + values.compactMap { value in value.empty.map { (value.name, $0) } }
        reserve = Self.insert(into: table, key + needed.map(\.0), placeholders + needed.map(\.1))
        release = "DELETE FROM \(table) WHERE \(isKey)"
    }

    private static func insert(into table: String, _ columns: [String], _ values: [String]) -> String {
        "INSERT INTO \(table) (\(columns.joined(separator: ", "))) VALUES (\(values.joined(separator: ", ")))"
    }
}

extension CommitPlan {
    /// Writes a row, or deletes the one that was loaded. If there was none and is to be none, takes the key for a
    /// moment: that fails if another commit has added the row.
    ///
    /// - Parameters:
    ///   - row: The version and values; `nil` if there is to be no row.
    ///   - version: The version that was loaded; `nil` if there was no row.
    mutating func put(
        _ row: [PostgresValue]?, at key: [PostgresValue], in table: VersionedTable, replacing version: Int64?
    ) {
        switch (version.map { PostgresValue.integer($0) }, row) {
        case (nil, let row?): add(table.insert, key + row)
        case (let version?, let row?): add(table.update, key + row + [version])
        case (let version?, nil): add(table.delete, key + [version])
        case (nil, nil):
            add(table.reserve, key)
            add(table.release, key)
        }
    }
}

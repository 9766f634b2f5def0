// SPDX-License-Identifier: Apache-2.0

/// The statements about a row of a table whose rows have versions. A statement about a loaded row raises a ``Conflict``
/// if the row now has a different version or is gone.
struct VersionedTable: Sendable {
    /// Adds a row. The parameters are the key, the version and the values.
    let insert: String
    /// Replaces a row. The parameters are the key, the new version, the values, and the loaded version.
    let update: String
    /// Deletes a row. The parameters are the key and the loaded version.
    let delete: String
    /// Locks a row against changes. The parameters are the key and the loaded version.
    let check: String
    /// Adds a row that has only a key. The statement fails if the key exists.
    let reserve: String
    /// Deletes the row that ``reserve`` added.
    let release: String

    /// - Parameters:
    ///   - key: The columns of the key.
    ///   - values: The columns besides the key and `version`. `cast` is the SQL after the parameter of the column.
    ///     `empty` is the value of the column in a row added by ``reserve``; `nil` for NULL.
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
    /// Writes a row, or deletes the loaded row. If there was no row and none is to be written, there must still be no
    /// row. Inserting and deleting the key proves this, because the insertion fails if a concurrent commit has added
    /// the row.
    ///
    /// - Parameters:
    ///   - row: The version and values; `nil` if there is to be no row.
    ///   - version: The loaded version; `nil` if there was no row.
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

// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// What a schema of a database contains: nothing, a ledger, or objects of other software.
enum SchemaContent: Equatable {
    /// No tables. The schema itself may be missing.
    case nothing(exists: Bool)
    /// A ledger, with the version of its tables.
    case ledger(version: Int)
    /// Tables, views, sequences or functions of other software.
    case others

    /// The version of the ledger; `nil` without a ledger.
    var version: Int? { if case .ledger(let version) = self { version } else { nil } }

    /// Requires that a ledger for which no schema is named does not begin beside a ledger in a schema of `search_path`:
    /// a server with an empty ledger would deny all purchases in the other.
    ///
    /// - Throws: `LedgerStorageError`, `PostgresFailure`.
    static func requireNoneElsewhere(_ pool: ConnectionPool) async throws {
        let found = try await shapes(pool, "nspname = $1 OR nspname = ANY (current_schemas(false))", pool.schema)
        let ledgers = found.filter(\.isLedger).map(\.name)
        guard let other = ledgers.first, !ledgers.contains(pool.schema) else { return }
        throw LedgerStorageError(
            .unavailable,
            "The schema \(other) of this database has a ledger, and the address names no schema: add schema=\(other) "
                + "for that ledger, or schema=\(pool.schema) for a new one",
            isPassing: false)
    }

    /// Reads what the pool's schema contains.
    ///
    /// - Throws: `LedgerStorageError.damaged` if the ledger has lost its version.
    static func read(_ pool: ConnectionPool) async throws -> SchemaContent {
        guard let shape = try await shapes(pool, "nspname = $1", pool.schema).first else {
            return .nothing(exists: false)
        }
        guard shape.isLedger else { return shape.relations == 0 ? .nothing(exists: true) : .others }
        let rows = try await RepeatedRequests(pool: pool).read(version)
        let found = try rows.map { (version: try $0.next(Int.self), marker: try $0.next(String?.self)) }.first
        guard let found else {
            throw LedgerStorageError(.damaged, "The ledger has lost its version: schema_version has no row")
        }
        return found.marker == LedgerSchema.marker ? .ledger(version: found.version) : .others
    }

    // MARK: - Catalogues

    private struct Shape {
        var name: String
        /// The number of tables, views, sequences and functions in the schema, without those of extensions.
        var relations: Int
        /// Whether the schema has the tables and columns that identify a ledger.
        var isLedger: Bool
    }

    /// The columns by which a ledger is recognized. They exist in every version of the tables.
    private static let columns = [
        "schema_version.id", "schema_version.version", "chains.version", "customers.number", "documents.signed_date",
        "outbox.recorded_at", "counter.last", "scopes.app",
    ]

    /// Reads the version, and the column `ledger`, whose text identifies a ledger. The row is read as JSON, because the
    /// column may be missing in a table of other software.
    private static let version = PostgresStatement.once(
        """
        SELECT version, to_jsonb(found) ->> 'ledger' FROM quittance.schema_version AS found WHERE id = 1
        """)

    private static func shapes(_ pool: ConnectionPool, _ condition: String, _ name: String) async throws -> [Shape] {
        let statement = PostgresStatement.once(
            """
            SELECT nspname::text,
                (SELECT count(*) FROM pg_class
                    WHERE relnamespace = pg_namespace.oid AND relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND NOT EXISTS (
                    SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid
                        AND deptype = 'e'))
                + (SELECT count(*) FROM pg_proc WHERE pronamespace = pg_namespace.oid AND NOT EXISTS (
                    SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = pg_proc.oid
                        AND deptype = 'e')),
                (SELECT count(*) FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
                    WHERE relnamespace = pg_namespace.oid AND relkind IN ('r', 'p') AND NOT attisdropped
                        AND atttypid = 'bigint'::regtype AND relname || '.' || attname = ANY ($2))
            FROM pg_namespace WHERE \(condition) ORDER BY array_position(current_schemas(false), nspname)
            """, [.text(name), .texts(columns)])
        return try await RepeatedRequests(pool: pool).read(statement).map { row in
            let name = try row.next(String.self)
            let relations = try row.next(Int.self)
            return Shape(name: name, relations: relations, isLedger: try row.next(Int.self) == columns.count)
        }
    }
}

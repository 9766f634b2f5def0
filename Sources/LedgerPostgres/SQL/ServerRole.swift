// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// The rights of a role under which servers run without owning the ledger. The role may read all rows, and write all
/// rows except the row with the ledger's version. It may not change tables.
enum ServerRole {
    /// The statements that grant the rights, including rights on tables that the owner creates later. The owner must
    /// run them.
    ///
    /// - Parameters:
    ///   - role: The name of the role. A dot in the name is escaped, so that no part of the name is mistaken for the
    ///     schema of a table, see ``LedgerSchema``.
    ///   - schema: The schema of the ledger.
    static func grants(to role: String, in schema: String) -> [String] {
        let role = quoted(role)
        let schema = "\"\(schema)\""
        return [
            "GRANT USAGE ON SCHEMA \(schema) TO \(role)",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \(schema) TO \(role)",
            "REVOKE INSERT, UPDATE, DELETE ON quittance.schema_version FROM \(role)",
            """
            ALTER DEFAULT PRIVILEGES IN SCHEMA \(schema)
                GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO \(role)
            """,
        ]
    }

    static let owner = PostgresStatement(
        "SELECT pg_get_userbyid(relowner)::text FROM pg_class WHERE oid = 'quittance.schema_version'::regclass")

    private static func quoted(_ name: String) -> String {
        let escaped = name.replacing("\\", with: "\\\\").replacing("\"", with: "\"\"").replacing(".", with: "\\002E")
        return "U&\"\(escaped)\""
    }
}

extension PostgresLedgerStorage {
    /// Grants a role the rights of a server. Only the owner of the tables can grant them.
    ///
    /// - Throws: `LedgerStorageError`, for example `unavailable` if the role does not exist, or if it owns the tables.
    ///   An owner is refused because the statements would take rights from it that an upgrade needs.
    public func grantServing(to role: String) async throws {
        let owner = try await translated {
            try await self.requests.read(ServerRole.owner).map { try $0.next(String.self) }.first
        }
        guard role != owner else {
            throw LedgerStorageError(
                .unavailable,
                "The role \(role) owns the tables, and has all rights already: name a different role for the servers",
                isPassing: false)
        }
        let grants = ServerRole.grants(to: role, in: requests.pool.schema).map { PostgresStatement.once($0) }
        try await translated { _ = try await self.requests.send(.transaction(grants)) }
    }
}

// SPDX-License-Identifier: Apache-2.0

public import PurchaseLedger

// Half a copy is no ledger: the note of a copy that has not ended.

extension PostgresLedgerStorage {
    private static let found = PostgresStatement("SELECT source, began_at FROM quittance.unfinished_copy")

    /// The note of a copy into this ledger that has not ended.
    public func unfinishedCopy() async throws -> UnfinishedCopy? {
        try await translated { try await Self.unfinishedCopy(self.requests) }
    }

    /// - Throws: `LedgerStorageError`: `unfinishedCopy` if the ledger is half a copy.
    static func requireWhole(_ requests: RepeatedRequests) async throws {
        if let copy = try await unfinishedCopy(requests) { throw LedgerStorageError(copy) }
    }

    private static func unfinishedCopy(_ requests: RepeatedRequests) async throws -> UnfinishedCopy? {
        try await requests.read(found).map { UnfinishedCopy(source: try $0.next(), beganAt: try $0.next()) }.first
    }

    /// Writes the note, or removes it.
    public func note(_ copy: UnfinishedCopy?) async throws {
        var statements = [PostgresStatement("DELETE FROM quittance.unfinished_copy")]
        if let copy {
            statements.append(
                PostgresStatement(
                    "INSERT INTO quittance.unfinished_copy (id, source, began_at) VALUES (1, $1, $2)",
                    [.text(copy.source), copy.beganAt.parameter]))
        }
        let request = PostgresRequest.transaction(statements)
        try await translated { _ = try await self.requests.send(request) }
    }

    /// Reads an index of all documents.
    public func documentCount() async throws -> Int {
        let statement = PostgresStatement("SELECT count(*) FROM quittance.documents")
        return try await translated {
            try await self.long([statement]).last?.map { try $0.next(Int.self) }.first ?? 0
        }
    }

    /// Gathers statistics of all tables that grow. PostgreSQL plans prepared statements anew afterwards: a plan that
    /// was made while a table was empty reads all of it.
    public func adaptToSize() async throws {
        let tables = [
            "chains", "transactions", "documents", "pieces", "mentions", "customers", "holdings", "records", "outbox",
            "events",
        ]
        let statements = tables.map { PostgresStatement.once("ANALYZE quittance.\($0)") }
        try await translated {
            // A transaction for each, so that no lock lasts longer than it must.
            for statement in statements { _ = try await self.long([statement]) }
        }
    }

    /// Runs what takes as long as tables are large, also if an operator allows a server's statements less.
    func long(_ statements: [PostgresStatement]) async throws -> [PostgresRows] {
        let unlimited = PostgresStatement.once("SET LOCAL statement_timeout = 0")
        return try await requests.send(.transaction([unlimited] + statements, limit: Migrator.limit))
    }
}

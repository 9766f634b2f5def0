// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

// Half a copy is no ledger: the record of a copy that has not ended. And what a copy does with a whole ledger.

extension PostgresLedgerStorage {
    private static let payload = PostgresStatement.once(
        """
        SELECT payload FROM quittance.records
        WHERE kind = '\(UnfinishedCopy.key.kind.rawValue)' AND owner = 0 AND home = '' AND name = ''
        """)

    /// - Throws: `LedgerStorageError`: `unfinishedCopy` if the ledger is half a copy.
    static func requireWhole(_ requests: RepeatedRequests) async throws {
        guard let payload = try await requests.read(payload).map({ try $0.next([UInt8].self) }).first else { return }
        throw LedgerStorageError(try UnfinishedCopy(LedgerRecord(UnfinishedCopy.key, payload: payload)))
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

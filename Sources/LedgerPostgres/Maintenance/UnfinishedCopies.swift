// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

// Refuses to open an unfinished copy (a ledger into which only a part of a different ledger has been copied), and runs
// the long statements of a copy: counting documents, and gathering statistics.

extension PostgresLedgerStorage {
    private static let payload = PostgresStatement.once(
        """
        SELECT payload FROM quittance.records
        WHERE kind = '\(UnfinishedCopy.key.kind.rawValue)' AND owner = 0 AND home = '' AND name = ''
        """)

    /// - Throws: `LedgerStorageError.unfinishedCopy` if the ledger is an unfinished copy.
    static func requireWhole(_ requests: RepeatedRequests) async throws {
        let found: PostgresRows
        do {
            found = try await requests.read(payload)
        } catch PostgresFailure.refused(let state, _) where state.hasPrefix("08") {
            // Citus could not reach the node with the record. A copy needs every node, so none is going on.
            return
        }
        guard let payload = try found.map({ try $0.next([UInt8].self) }).first else { return }
        throw LedgerStorageError(try UnfinishedCopy(LedgerRecord(UnfinishedCopy.key, payload: payload)))
    }

    /// The number of stored documents. The count scans a whole index.
    public func documentCount() async throws -> Int {
        let statement = PostgresStatement("SELECT count(*) FROM quittance.documents")
        return try await translated {
            try await self.long([statement]).last?.map { try $0.next(Int.self) }.first ?? 0
        }
    }

    /// Gathers the statistics of all growing tables, after which PostgreSQL plans prepared statements again. A plan
    /// made for an empty table would scan the whole table.
    public func adaptToSize() async throws {
        let tables = [
            "chains", "transactions", "documents", "pieces", "mentions", "customers", "holdings", "records", "outbox",
            "events",
        ]
        let statements = tables.map { PostgresStatement.once("ANALYZE quittance.\($0)") }
        try await translated {
            // A transaction per table keeps each lock short.
            for statement in statements { _ = try await self.long([statement]) }
        }
    }

    /// Runs statements whose time grows with the size of their tables. Overrides the operator's statement timeout.
    func long(_ statements: [PostgresStatement]) async throws -> [PostgresRows] {
        let unlimited = PostgresStatement.once("SET LOCAL statement_timeout = 0")
        return try await requests.send(.transaction([unlimited] + statements, limit: Migrator.limit))
    }
}

// SPDX-License-Identifier: Apache-2.0

// Erases the ids of customers that were deleted 30 days ago.

package import AppStoreModel

extension Ledger {
    /// Erases the ids of deleted customers (``DeletedCustomer``) whose lifetime has ended, at most `limit`.
    ///
    /// - Returns: The number of erased records: `limit` if there may be more.
    package func eraseDeletedIds(at now: Timestamp, limit: Int = 500) async throws -> Int {
        let selection = RecordSelection(DeletedCustomer.recordKind, dueAt: now)
        let keys = try await storage.records(selection, limit: limit).map(\.key)
        guard !keys.isEmpty else { return 0 }
        try await commit(LedgerQuery(keys.map(LedgerKey.record)), at: now) { draft in
            for key in keys where draft.record(key)?.isDue(at: now) == true { draft.erase(key) }
        }
        return keys.count
    }
}

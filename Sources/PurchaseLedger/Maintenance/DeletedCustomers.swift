// SPDX-License-Identifier: Apache-2.0

// Erases the ids of customers that were deleted 30 days ago, and the ids that were taken off customers 30 days ago.

package import AppStoreModel

extension Ledger {
    /// Erases the ids whose lifetime has ended: of deleted customers (``DeletedCustomer``), and ids that were taken off
    /// customers (``RemovedIds``). Changes at most `limit` records.
    ///
    /// - Returns: The number of changed records: `limit` if there may be more.
    package func eraseDeletedIds(at now: Timestamp, limit: Int = 500) async throws -> Int {
        let deleted = try await due(DeletedCustomer.recordKind, at: now, limit)
        let removed = try await due(RemovedIds.recordKind, at: now, limit - deleted.count)
        let keys = deleted + removed
        guard !keys.isEmpty else { return 0 }
        try await commit(LedgerQuery(keys.map(LedgerKey.record)), at: now) { draft in
            for key in deleted where draft.record(key)?.isDue(at: now) == true { draft.erase(key) }
            for key in removed where draft.record(key)?.isDue(at: now) == true { draft.forgetRemovedIds(key) }
        }
        return keys.count
    }

    private func due(_ kind: RecordKind, at now: Timestamp, _ limit: Int) async throws -> [RecordKey] {
        guard limit > 0 else { return [] }
        return try await storage.records(RecordSelection(kind, dueAt: now), limit: limit).map(\.key)
    }
}

extension LedgerDraft {
    /// Erases the ids in a record whose lifetime has ended, and the record if no id is left or it cannot be read.
    fileprivate mutating func forgetRemovedIds(_ key: RecordKey) {
        guard var removed = RemovedIds(readable: record(key)) else { return erase(key) }
        removed.forget(at: now)
        if removed.removals.isEmpty { erase(key) } else { put(removed) }
    }
}

// SPDX-License-Identifier: Apache-2.0

// Notices for the operator (``Notice``) in storage: how decisions store notices, and how a ledger lists and erases
// them.

package import AppStoreModel

/// A notice in its stored form: a record without payload, which is due when the notice's lifetime ends.
struct StoredNotice: RecordValue {
    private let key: RecordKey
    private let end: Timestamp

    init(_ notice: Notice, until end: Timestamp) {
        self.key = notice.key
        self.end = end
    }

    init(_ record: LedgerRecord) throws(LedgerStorageError) {
        guard case .scope = record.key.owner, let end = record.dueAt else {
            throw LedgerStorageError(unreadable: record.key)
        }
        self.key = record.key
        self.end = end
    }

    var record: LedgerRecord { LedgerRecord(key, dueAt: end) }
}

extension LedgerDraft {
    /// Stores a notice with the present time as its last occurrence.
    mutating func store(_ notice: Notice) {
        let end = now.advanced(by: Notice.lifetime)
        if let known = record(notice.key)?.dueAt, end < known.advanced(by: Notice.precision) { return }
        put(StoredNotice(notice, until: end))
    }
}

extension Ledger {
    /// The notices of the last 30 days that meet a condition, at most `limit` of each kind. Also erases the ended
    /// notices among the records that it reads.
    package func currentNotices(
        at now: Timestamp, limit: Int, where holds: (Notice) -> Bool
    ) async throws -> [Notice] {
        var notices: [Notice] = []
        for kind in Notice.Kind.allCases {
            var found: [Notice] = []
            var cursor: ScanCursor?
            repeat {
                let page = try await storage.records(RecordSelection(kind.record), after: cursor, limit: 500)
                try await erase(Set(page.items.filter { $0.isDue(at: now) }.map(\.key)), at: now)
                found += page.items.filter { !$0.isDue(at: now) }.compactMap { record in
                    record.key.owner.scope.map { Notice(kind, record.key.name, in: $0) }
                }.filter(holds)
                cursor = page.next
            } while cursor != nil && found.count < limit
            notices += found.prefix(limit)
        }
        return notices
    }

    /// The products of an app's purchases of the last 30 days that its catalogue lacks, sorted, at most about `limit`.
    package func unknownProducts(of bundleId: String, limit: Int, at now: Timestamp) async throws -> [String] {
        let catalogue = rules.catalogue(of: bundleId)
        var products: Set<String> = []
        for environment in Environment.allCases {
            let owner = RecordOwner.scope(LedgerScope(bundleId: bundleId, environment: environment))
            let records = try await storage.records(
                RecordSelection(Notice.Kind.unknownProduct.record, of: owner), limit: limit)
            products.formUnion(records.filter { !$0.isDue(at: now) }.map(\.key.name))
        }
        return products.filter { catalogue.products[exactly: $0] == nil }.sorted()
    }

    /// Erases ended notices, except notices that have occurred again in the meantime.
    private func erase(_ ended: Set<RecordKey>, at now: Timestamp) async throws {
        guard !ended.isEmpty else { return }
        try await commit(LedgerQuery(ended.map(LedgerKey.record)), at: now) { draft in
            for key in ended where draft.record(key)?.isDue(at: now) == true { draft.erase(key) }
        }
    }
}

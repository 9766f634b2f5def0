// SPDX-License-Identifier: Apache-2.0

// Adds entries to the audit list (``AuditEntry``), finds them and erases them.

package import AppStoreModel

extension LedgerDraft {
    /// Stores the entry of an operation with its change, if there is one. All commits of the operation store the same
    /// record, which is among the loaded: there is one entry, however often it is decided and however much it commits.
    mutating func add(_ audit: AuditEntry) {
        let changes = decided
        guard noted != nil || !changes.keys.isEmpty else { return }
        var entry = AuditEntry(readable: record(audit.key)) ?? audit
        let named = audit.customerId.map { CustomerID($0, of: audit.bundleId) }
        let first = named.flatMap { customer($0) ?? loaded.customer($0) }?.customer
        let concerned = changes.erasedCustomers.union(changes.customers.map(\.customer))
            .union(changes.events.compactMap(\.customer)).union(changes.chains.flatMap(\.owners).map(\.customer))
            .union(noted ?? [])
        let others = concerned.filter { $0.bundleId == audit.bundleId }.sorted { $0.number < $1.number }
        for number in ([first].compactMap(\.self) + others).map(\.number)
        where !entry.content.customers.contains(number) && entry.content.customers.count < LedgerRecord.entryLimit {
            entry.content.customers.append(number)
        }
        entry.content.events = Set(changes.events.map(\.kind.rawValue)).union(entry.content.events).sorted()
        put(entry)
    }
}

extension Ledger {
    /// Stores the entry of an operation that changed something elsewhere, as at the App Store.
    ///
    /// - Parameter purchase: Any transaction of the purchase that was changed: the entry is about its customers too.
    package func noteChange(of purchase: TransactionKey? = nil, at now: Timestamp) async throws {
        try await commit(LedgerQuery(), at: now) { draft in
            // The id of the first transaction is known even if the transaction is not.
            let chains = purchase.map { key in
                draft.chains(of: key) + [draft.record(ChainKey(key.transactionId, in: key.scope))]
            }
            draft.noted = chains?.flatMap(\.owners).map(\.customer) ?? []
        }
    }

    /// The entries of an app, the newest first, on a page after the entry with the id `last`. Unreadable entries are
    /// left out.
    ///
    /// - Parameters:
    ///   - id: An id of a customer: only entries about it, and about customers merged into it.
    ///   - end: The end of the time, exclusive.
    package func audit(
        of bundleId: String, about id: String? = nil, from start: Timestamp? = nil, to end: Timestamp? = nil,
        after last: String? = nil, limit: Int
    ) async throws -> ScanPage<AuditEntry> {
        var selection = RecordSelection(AuditEntry.recordKind, of: .app(bundleId))
        selection.names = AuditEntry.names(from: start, to: end)
        if let last { selection.names?.after = last }
        var records: [LedgerRecord] = []
        for number in try await numbers(of: id, in: bundleId) {
            selection.entry = number.map(AuditEntry.entry)
            records += try await storage.records(selection, limit: limit + 1)
        }
        var page = Self.page(records, limit)
        for index in page.items.indices {
            guard let number = page.items[index].content.customers.first else { continue }
            let customer = Customer(number: number, bundleId: bundleId)
            page.items[index].customerId = try await self.customer(customer)?.ids.first
            guard page.items[index].customerId == nil else { continue }
            let key = MergeNote.key(customer)
            let note = try await storage.load(LedgerQuery([.record(key)])).records[key]
            page.items[index].customerId = MergeNote(readable: note)?.into
        }
        return page
    }

    /// The numbers of a customer and of all customers merged into it; without an id a single `nil`, for all customers.
    private func numbers(of id: String?, in bundleId: String) async throws -> [Int64?] {
        guard let id = id.map({ CustomerID($0, of: bundleId) }) else { return [nil] }
        guard let customer = try await storage.load(LedgerQuery([.customerID(id)])).customer(id)?.customer else {
            return []
        }
        let key = MergedCustomers.key(customer)
        let note = try await storage.load(LedgerQuery([.record(key)])).records[key]
        return [customer.number] + (MergedCustomers(readable: note)?.numbers ?? [])
    }

    /// Not inlined into its asynchronous caller, because this compiler's optimizer miscompiles the result.
    @inline(never)
    private static func page(_ records: [LedgerRecord], _ limit: Int) -> ScanPage<AuditEntry> {
        // An entry about several customers is found once for each.
        let found = Dictionary(records.map { ($0.key.name, $0) }) { $1 }.sorted { $0.key < $1.key }
        let next = found.count > limit ? found[..<limit].last?.key : nil
        return ScanPage(
            items: found.prefix(limit).compactMap { AuditEntry(readable: $0.value) }, next: next.map(ScanCursor.init))
    }

    /// Erases entries from before an instant, at most `limit` of each app.
    ///
    /// - Returns: The number of erased entries: at least `limit` if there may be more.
    package func eraseAudit(before instant: Timestamp, limit: Int) async throws -> Int {
        var count = 0
        for app in try await storage.apps() {
            var selection = RecordSelection(AuditEntry.recordKind, of: .app(app))
            selection.names = AuditEntry.names(from: nil, to: instant)
            let keys = try await storage.records(selection, limit: limit).map(\.key)
            guard !keys.isEmpty else { continue }
            try await commit(LedgerQuery(keys.map(LedgerKey.record)), at: instant) { draft in
                for key in keys where draft.record(key) != nil { draft.erase(key) }
            }
            count += keys.count
        }
        return count
    }
}

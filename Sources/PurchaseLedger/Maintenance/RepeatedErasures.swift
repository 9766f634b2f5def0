// SPDX-License-Identifier: Apache-2.0

// Erasures with a journal: written before they are committed, and repeated in a ledger that lacks them.

import AppStoreModel

extension Ledger {
    private enum Erasure {
        case unknown
        /// The customer has got ids that are not in the journal.
        case grown
        case erased(DeletionReport)
    }

    /// How often a customer may get a further id while it is erased.
    private static let maxRounds = 8

    /// Writes an erasure into the journal, and commits it.
    ///
    /// - Parameter instant: Up to when documents count as older than the erasure.
    func erase(
        _ id: CustomerID, in scope: LedgerScope, asOf instant: Timestamp, _ journal: any ErasureJournal,
        at now: Timestamp
    ) async throws -> DeletionReport? {
        for _ in 0..<Self.maxRounds {
            let snapshot = try await storage.load(LedgerQuery([.customerID(id)]))
            guard let known = snapshot.customer(id)?.identifiers else { return nil }
            let accounts = try await accountsErased(with: id)
            let number = try journal.add(known.union(accounts).sorted { $0.id < $1.id }, at: instant)
            let erasure = try await commit(.everything(of: [id]), at: now) { draft -> Erasure in
                guard let customer = draft.customer(id) else { return .unknown }
                guard customer.identifiers.isSubset(of: known) else { return .grown }
                guard let report = draft.erase(id, in: scope, asOf: instant) else { return .unknown }
                draft.put(ErasureNote(number, in: journal, of: id.bundleId))
                return .erased(report)
            }
            switch erasure {
            case .unknown: return nil
            case .grown: continue
            case .erased(let report): return report
            }
        }
        throw LedgerStorageError(.unavailable, "The customer got new ids while it was being erased")
    }

    /// The accounts of the customer's purchases that nobody else uses: in an older state of the ledger each may be a
    /// customer that owns one of these purchases, from before they were claimed.
    private func accountsErased(with id: CustomerID) async throws -> Set<CustomerID> {
        guard !rules.keepsEvidence else { return [] }
        let own = try await storage.load(.everything(of: [id]))
        let chains = own.customer(id).map { own.chains(of: $0.customer) } ?? []
        let accounts = Set(chains.filter { $0.owners.count == 1 }.compactMap(\.chain.account))
        guard !accounts.isEmpty else { return [] }
        let others = try await storage.load(.everything(of: accounts))
        return accounts.filter { account in
            guard let customer = others.customer(account) else { return true }
            return !customer.isEstablished && others.chains(of: customer.customer).isEmpty
        }
    }

    /// How many customers are looked up at once.
    private static let erasurePage = 500

    /// Erases again, with the time of their erasure, those customers whose erasure is in a journal and not in the
    /// ledger: after an older state was restored, or if the program ended before it committed an erasure.
    ///
    /// - Returns: How many customers were erased.
    /// - Throws: ``LedgerStorageError``.
    package func replay(_ journal: any ErasureJournal) async throws -> Int {
        let records = Dictionary(grouping: try journal.records(), by: \.bundleId)
        let notes = records.keys.map { ErasureNote.key(journal, of: $0) }
        let stored = try await storage.load(LedgerQuery(notes.map(LedgerKey.record))).records
        var erased = 0
        var lacking: [String: [String: ErasureRecord]] = [:]
        for (bundleId, records) in records {
            let last = ErasureNote.number(stored[ErasureNote.key(journal, of: bundleId)])
            // Of several erasures of one id the newest counts.
            let new = records.filter { $0.number > last }.map { ($0.name, $0) }
            if !new.isEmpty { lacking[bundleId] = Dictionary(new) { $1 } }
        }
        guard !lacking.isEmpty else { return 0 }
        // All are found before any is erased: an erasure may remove other customers, and so move the scan.
        for (id, erasedAt) in try await customers(in: lacking, journal) {
            let scope = LedgerScope(bundleId: id.bundleId, environment: .production)
            let report = try await commit(.everything(of: [id]), at: erasedAt) {
                $0.erase(id, in: scope, asOf: erasedAt)
            }
            erased += report == nil ? 0 : 1
        }
        let done = lacking.map { bundleId, records in
            ErasureNote(records.values.map(\.number).max() ?? 0, in: journal, of: bundleId)
        }
        try await commit(LedgerQuery(done.map { .record($0.record.key) }), at: .distantFuture) { draft in
            for note in done { draft.put(note) }
        }
        return erased
    }

    private func customers(
        in records: [String: [String: ErasureRecord]], _ journal: any ErasureJournal
    ) async throws -> [(CustomerID, Timestamp)] {
        var found: [(CustomerID, Timestamp)] = []
        var cursor: ScanCursor?
        repeat {
            let page = try await storage.customers(after: cursor, limit: Self.erasurePage)
            for customer in page.items {
                guard let names = records[customer.customer.bundleId] else { continue }
                let matches = customer.identifiers.compactMap { id in names[journal.name(of: id)].map { (id, $0) } }
                if let (id, record) = matches.max(by: { $0.1.number < $1.1.number }) {
                    found.append((id, record.erasedAt))
                }
            }
            cursor = page.next
        } while cursor != nil
        return found
    }
}

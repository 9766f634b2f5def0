// SPDX-License-Identifier: Apache-2.0

// Writes erasures of customers into a journal (``ErasureJournal``) before their commit, and repeats them in a ledger
// that lacks them.

package import AppStoreModel

extension Ledger {
    private enum Erasure {
        case unknown
        /// The customer has new ids that are not in the journal.
        case grown
        /// A different server has written an erasure with this number into a copy of the journal.
        case copied
        case erased(DeletionReport)
    }

    /// The maximum number of attempts at an erasure, in case the customer gets new ids meanwhile.
    private static let maxRounds = 8

    /// Writes an erasure into the journal, and commits it.
    ///
    /// - Parameter instant: The time up to which documents count as older than the erasure.
    func erase(
        _ id: CustomerID, in scope: LedgerScope, asOf instant: Timestamp, _ erasures: ErasureTurns,
        at now: Timestamp
    ) async throws -> DeletionReport? {
        for _ in 0..<Self.maxRounds {
            let snapshot = try await storage.load(LedgerQuery([.customerID(id)]))
            guard let known = snapshot.customer(id)?.identifiers else { return nil }
            let accounts = try await accountsErased(with: id)
            let journal = erasures.journal
            let number = try journal.add(known.union(accounts).sorted { $0.id < $1.id }, at: instant)
            let key = ErasureNote.key(journal, of: id.bundleId)
            let query = LedgerQuery.everything(of: [id]).union(LedgerQuery([.record(key)]))
            let erasure = try await commit(query, at: now) { draft -> Erasure in
                guard let customer = draft.customer(id) else { return .unknown }
                guard customer.identifiers.isSubset(of: known) else { return .grown }
                // A restored ledger repeats only greater numbers than that of its note.
                let last = ErasureNote(readable: draft.record(key))
                guard number > last?.number ?? 0 else { return .copied }
                guard let report = draft.erase(id, in: scope, asOf: instant) else { return .unknown }
                draft.put(ErasureNote(key: key, number: number, known: max(number, last?.known ?? 0)))
                return .erased(report)
            }
            switch erasure {
            case .unknown: return nil
            case .grown: continue
            case .copied: erasures.journal = try erasures.renewed()
            case .erased(let report): return report
            }
        }
        throw LedgerStorageError(.unavailable, "The customer got new ids during the erasure")
    }

    /// The accounts named by the `appAccountToken` of the purchases that only this customer owns, without accounts
    /// whose own customer exists in its own right or owns a purchase. In an older backup, such an account may still be
    /// a customer of its own, which owned the purchase until this customer claimed it.
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

    /// The number of customers looked up at once.
    private static let erasurePage = 500

    /// Repeats the erasures that are in a journal and not in the ledger, with their original time. An erasure is
    /// missing after an older backup was restored, or if the program ended before the commit.
    ///
    /// A damaged record must not erase a customer who came back. It counts only if a newer whole record is missing too,
    /// or during a restore.
    ///
    /// - Parameter restoringAt: The time of a restore; `nil` for the start of a server.
    /// - Returns: The number of erased customers.
    /// - Throws: ``LedgerStorageError``.
    package func replay(_ journal: any ErasureJournal, restoringAt: Timestamp? = nil) async throws -> Int {
        let all = try journal.records()
        var records = Dictionary(grouping: all.filter { !$0.isDamaged }, by: \.bundleId)
        let damaged = all.filter(\.isDamaged)
        // Its bundle id may be wrong. The name is that of a customer only in the right app.
        if !damaged.isEmpty { for app in try await storage.apps() { records[app] = damaged + (records[app] ?? []) } }
        let notes = records.keys.map { ErasureNote.key(journal, of: $0) }
        let stored = try await storage.load(LedgerQuery(notes.map(LedgerKey.record))).records
        var erased = 0
        var lacking: [String: [String: ErasureRecord]] = [:]
        for (bundleId, records) in records {
            // Without a readable note no erasure is skipped.
            let last = ErasureNote(readable: stored[ErasureNote.key(journal, of: bundleId)])?.number ?? 0
            let whole = records.lazy.filter { !$0.isDamaged }.map(\.number).max() ?? 0
            let newest = restoringAt == nil ? whole : .max
            let new = records.filter { $0.number > last && (!$0.isDamaged || $0.number <= newest) }
            // Of several erasures of the same id, the newest counts.
            if !new.isEmpty {
                lacking[bundleId] = Dictionary(new.map { ($0.name, $0) }) { $0.number > $1.number ? $0 : $1 }
            }
        }
        guard !lacking.isEmpty else { return 0 }
        // All customers are found before the first erasure, because an erasure may remove other customers, and the scan
        // could then skip some.
        for (id, record) in try await customers(in: lacking, journal) {
            // Of a damaged record behind all whole ones, the time may be in the future.
            let erasedAt = record.isDamaged ? min(record.erasedAt, restoringAt ?? .distantFuture) : record.erasedAt
            let scope = LedgerScope(bundleId: id.bundleId, environment: .production)
            let report = try await commit(.everything(of: [id]), at: erasedAt) {
                $0.erase(id, in: scope, asOf: erasedAt)
            }
            erased += report == nil ? 0 : 1
        }
        let done = lacking.map { bundleId, records in
            let key = ErasureNote.key(journal, of: bundleId)
            let number = records.values.map(\.number).max() ?? 0
            let known = ErasureNote(readable: stored[key])?.known ?? 0
            return ErasureNote(key: key, number: number, known: max(number, known))
        }
        try await put(done)
        return erased
    }

    /// The notes of all journals. Unreadable notes are left out.
    package func erasureNotes() async throws -> [ErasureNote] {
        var notes: [ErasureNote] = []
        var cursor: ScanCursor?
        repeat {
            let page = try await storage.records(
                RecordSelection(ErasureNote.recordKind), after: cursor, limit: Self.erasurePage)
            notes += page.items.compactMap { ErasureNote(readable: $0) }
            cursor = page.next
        } while cursor != nil
        return notes
    }

    /// Notes that the journals must have the erasures which a replaced ledger knew.
    package func noteErasures(knownTo replaced: [ErasureNote]) async throws {
        let own = Dictionary(try await erasureNotes().map { ($0.key, $0) }) { $1 }
        try await put(
            replaced.map {
                ErasureNote(
                    key: $0.key, number: own[$0.key]?.number ?? 0, known: max($0.known, own[$0.key]?.known ?? 0))
            })
    }

    /// Accepts that the journals of some notes lack erasures.
    package func acceptLoss(of notes: [ErasureNote]) async throws {
        try await updateNotes(notes) {
            $0.known = 0
            $0.doubters = []
        }
    }

    /// Doubts whether any server has the journals of some notes, once for each new journal.
    package func doubt(_ notes: [ErasureNote], by journal: any ErasureJournal) async throws {
        guard let first = notes.first?.key.owner.bundleId else { return }
        let id = journal.id
        try await updateNotes(notes) { $0.doubters = $0.doubters.suffix(ErasureNote.maxDoubters - 1) + [id] }
        try await put([ErasureNote(key: ErasureNote.key(journal, of: first), number: 0, known: 0)])
    }

    /// Ends the doubts about the journals of some notes, which a server has.
    package func endDoubts(of notes: [ErasureNote]) async throws { try await updateNotes(notes) { $0.doubters = [] } }

    private func updateNotes(
        _ notes: [ErasureNote], _ body: @escaping @Sendable (inout ErasureNote) -> Void
    ) async throws {
        guard !notes.isEmpty else { return }
        try await commit(LedgerQuery(notes.map { .record($0.key) }), at: .distantFuture) { draft in
            for var note in notes.compactMap({ ErasureNote(readable: draft.record($0.key)) }) {
                body(&note)
                draft.put(note)
            }
        }
    }

    private func put(_ notes: [ErasureNote]) async throws {
        try await commit(LedgerQuery(notes.map { .record($0.key) }), at: .distantFuture) { draft in
            for note in notes { draft.put(note) }
        }
    }

    private func customers(
        in records: [String: [String: ErasureRecord]], _ journal: any ErasureJournal
    ) async throws -> [(CustomerID, ErasureRecord)] {
        var found: [(CustomerID, ErasureRecord)] = []
        var cursor: ScanCursor?
        repeat {
            let page = try await storage.customers(after: cursor, limit: Self.erasurePage)
            for customer in page.items {
                guard let names = records[customer.customer.bundleId] else { continue }
                let matches = customer.identifiers.compactMap { id in names[journal.name(of: id)].map { (id, $0) } }
                if let match = matches.max(by: { $0.1.number < $1.1.number }) { found.append(match) }
            }
            cursor = page.next
        } while cursor != nil
        return found
    }
}

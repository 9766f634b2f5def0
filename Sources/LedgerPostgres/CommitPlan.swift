// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The statements of one commit. The files in `Rows` add to it.
///
/// A statement that replaces a record fails unless the record is still what was loaded; then nothing is committed.
/// Records that were only looked at are locked against changes until the commit. All commits take their locks in one
/// order: customers, holdings, chains, records, pieces, documents, and within a table the order of its key.
/// Otherwise they would wait for each other in a circle.
struct CommitPlan {
    let loaded: LoadedRecords
    let scopes: ScopeNumbers
    /// A number that no other commit has: the version of the rows that it writes.
    let stamp: Int64
    /// The packed contents of new documents.
    var contents: [Provenance: [UInt8]] = [:]
    /// Whether rows of one table share a statement.
    private var shares: Bool { !isDistributed }
    /// Whether Citus distributes the tables.
    let isDistributed: Bool
    private var statements: [PostgresStatement] = []
    /// The last rows, as long as the same is done with each.
    private var rows: (statement: RowStatement, rows: [[PostgresValue]])?

    private init(_ loaded: LoadedRecords, _ scopes: ScopeNumbers, stamp: Int64, isDistributed: Bool) {
        self.loaded = loaded
        self.scopes = scopes
        self.stamp = stamp
        self.isDistributed = isDistributed
    }

    mutating func add(_ sql: String, _ parameters: [PostgresValue]) {
        endRows()
        statements.append(PostgresStatement(sql, parameters))
    }

    mutating func add(_ statement: RowStatement, _ row: [PostgresValue]) {
        guard rows?.statement.isSame(as: statement) == true else {
            endRows()
            rows = (statement, [row])
            return
        }
        rows?.rows.append(row)
    }

    private mutating func endRows() {
        if let rows { statements += rows.statement.statements(rows.rows, shares: shares) }
        rows = nil
    }

    /// The statements for what was decided.
    ///
    /// - Parameters:
    ///   - isDistributed: Whether Citus distributes the tables. Then rows of one table share no statement.
    static func statements(
        _ group: GroupDraft, _ scopes: ScopeNumbers, stamp: Int64, isDistributed: Bool
    ) throws -> [PostgresStatement] {
        let (changes, footprint) = (group.changes, group.footprint)
        var plan = CommitPlan(group.before, scopes, stamp: stamp, isDistributed: isDistributed)
        plan.putCustomers(group.after, footprint)
        plan.putHoldings(group.after)
        try plan.putChains(changes.chains, touched: group.touchedChains, footprint)
        plan.putRecords(changes, footprint)
        try plan.putDocuments(changes)
        plan.append(changes.events)
        plan.insertNumbered(changes.events)
        plan.raise(changes.marks)
        plan.put(changes.marks.epochs)
        plan.endRows()
        return plan.statements
    }

    /// What must be loaded before these changes can be committed.
    static func needs(of changes: LedgerChanges, _ loaded: LoadedRecords) -> Footprint {
        var needs = Footprint()
        needs.chains = changes.touchedChains
        needs.names = Set(changes.documents.map(\.evidence.provenance))
        needs.evidence = changes.erasedChains
        // On several nodes each document that is moved has a statement.
        if loaded.homes != nil { needs.evidence.formUnion(changes.movedEvidence.keys) }
        needs.records = Set(changes.records.map(\.key)).union(changes.erasedRecords)
        needs.customers = Set(
            changes.customers.flatMap { record in record.ids.map { CustomerID($0, of: record.customer.bundleId) } })
        var customers = Set(changes.customers.map(\.customer)).union(changes.erasedCustomers)
        let changed = customers
        for record in changes.chains { customers.formUnion(loaded.newOwners(of: record)) }
        for customer in customers {
            // All rows of a customer change together.
            let ids = loaded.rows(of: customer).values.first?.ids
            needs.customers.formUnion((ids ?? []).map { CustomerID($0, of: customer.bundleId) })
            if ids == nil, !changed.contains(customer) { needs.numbers.insert(customer) }
        }
        return needs
    }
}

extension LedgerChanges {
    /// The chains whose version the commit increments, also if only their documents or events change. Events of another
    /// ledger change no chain.
    var touchedChains: Set<ChainKey> {
        var keys = erasedChains
        for record in chains { keys.insert(record.key) }
        for (old, new) in movedEvidence { keys.formUnion([old, new]) }
        for document in documents { keys.formUnion(document.chains) }
        for event in events where event.cursor == nil {
            guard let id = event.chainName else { continue }
            keys.insert(ChainKey(id, in: event.scope))
        }
        return keys
    }

    /// The apps of what is written and has no environment.
    var apps: Set<String> {
        Set(customers.map(\.customer.bundleId) + records.compactMap(\.key.owner.bundleId))
            .union(marks.erasedEvents.keys).union(marks.epochs.keys)
    }
}

extension LoadedRecords {
    /// The owners that a changed record has and the stored one has not.
    func newOwners(of record: ChainRecord) -> [Customer] {
        let old = chains[record.key]?.record
        return record.owners.map(\.customer).filter { old?.isOwned(by: $0) != true }
    }
}

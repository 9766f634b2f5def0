// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The statements of a commit. The files in `Rows` add their statements.
///
/// If a concurrent commit has changed a record since the record was loaded, the statement to replace the record fails,
/// and nothing is committed. The same holds for a record that was only read: a statement compares the record's version,
/// and locks the record against changes until the commit. All commits take their locks in the same order: customers,
/// holdings, chains, records, pieces, documents. Within each of these tables a commit sorts its keys. Otherwise
/// concurrent commits could deadlock.
struct CommitPlan {
    let loaded: LoadedRecords
    let scopes: ScopeNumbers
    /// A random number, in practice unique to this commit. It becomes the version of the written rows of customers and
    /// records, and of events without a chain.
    let stamp: Int64
    /// The contents of new documents, in which shared parts are replaced by their names, see ``PackedDocument``.
    var contents: [Provenance: [UInt8]] = [:]
    /// Whether Citus distributes the tables. If so, each row has its own statement.
    let isDistributed: Bool
    private var statements: [PostgresStatement] = []
    /// The rows collected for a statement so far. Before a different statement is added, the collected rows become
    /// statements.
    private var rows: (statement: RowStatement, rows: [[PostgresValue]])?

    mutating func add(_ statement: PostgresStatement) {
        endRows()
        statements.append(statement)
    }

    mutating func add(_ sql: String, _ parameters: [PostgresValue]) { add(PostgresStatement(sql, parameters)) }

    mutating func add(_ statement: RowStatement, _ row: [PostgresValue]) {
        guard rows?.statement.isSame(as: statement) == true else {
            endRows()
            rows = (statement, [row])
            return
        }
        rows?.rows.append(row)
    }

    private mutating func endRows() {
        if let rows { statements += rows.statement.statements(rows.rows, shares: !isDistributed) }
        rows = nil
    }

    /// The statements for the changes of a batch, a group of commits decided together and committed in a single
    /// transaction.
    ///
    /// - Parameters:
    ///   - isDistributed: Whether Citus distributes the tables. If so, each row has its own statement.
    static func statements(
        _ group: GroupDraft, _ scopes: ScopeNumbers, stamp: Int64, isDistributed: Bool
    ) throws -> [PostgresStatement] {
        let changes = group.changes
        let readSet = group.readSet
        var plan = CommitPlan(loaded: group.before, scopes: scopes, stamp: stamp, isDistributed: isDistributed)
        plan.putCustomers(group.after, readSet.keys.customerIDs)
        plan.putHoldings(group.after)
        try plan.putChains(changes.chains, writeSet: group.writes.chains, readSet: readSet.keys.chains)
        plan.putRecords(changes, readSet.keys)
        try plan.putDocuments(changes)
        plan.append(changes.events)
        plan.insertNumbered(changes.events)
        plan.raise(changes.marks)
        plan.put(changes.marks.epochs)
        plan.endRows()
        return plan.statements
    }

    /// The records to load before the changes can be committed.
    ///
    /// - Parameters:
    ///   - written: The ``PurchaseLedger/LedgerChanges/keys`` of the changes.
    static func needs(
        of changes: LedgerChanges, _ written: Set<LedgerKey>, _ loaded: LoadedRecords
    ) -> ReadSet {
        var needs = ReadSet()
        for key in written {
            switch key {
            // All rows of a customer change together.
            case .customerID(let id): needs.keys.formUnion(loaded.rows(with: id) + [key])
            case .customer(let customer): needs.keys.formUnion(loaded.rows(of: customer))
            // A displaced document need not be loaded, because the SQL that deletes the document finds its row. The
            // same is true, without Citus, of documents moved to a different chain.
            case .document(let name) where changes.displacedDocuments.contains(name): break
            case .evidence(let chain) where loaded.homes == nil && !changes.erasedChains.contains(chain):
                needs.keys.insert(.chain(chain))
            case .events, .marks: break
            default: needs.keys.insert(key)
            }
        }
        let owners = Set(changes.chains.flatMap(loaded.newOwners)).subtracting(changes.customers.map(\.customer))
        for owner in owners { needs.keys.formUnion(loaded.rows(of: owner)) }
        return needs
    }
}

extension LoadedRecords {
    /// The keys of all ids of the customer with a given id.
    fileprivate func rows(with id: CustomerID) -> [LedgerKey] {
        (customers[id]?.record.ids ?? []).map { .customerID(CustomerID($0, of: id.bundleId)) }
    }

    /// The keys of all ids of a customer; the customer's own key if the customer was not loaded.
    fileprivate func rows(of customer: Customer) -> [LedgerKey] {
        rows(of: customer).keys.first.map(rows) ?? [.customer(customer)]
    }

    /// The customers who own a chain according to its changed record, but not according to its loaded record.
    func newOwners(of record: ChainRecord) -> [Customer] {
        let old = chains[record.key]?.record
        return record.owners.map(\.customer).filter { old?.isOwned(by: $0) != true }
    }
}

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
    /// Whether Citus distributes the tables. Then rows of one table share no statement.
    let isDistributed: Bool
    private var statements: [PostgresStatement] = []
    /// The last rows, as long as the same is done with each.
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

    /// The statements for what was decided.
    ///
    /// - Parameters:
    ///   - isDistributed: Whether Citus distributes the tables. Then rows of one table share no statement.
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

    /// What must be loaded before changes can be committed.
    ///
    /// - Parameters:
    ///   - written: What the changes write.
    static func needs(
        of changes: LedgerChanges, _ written: Set<LedgerKey>, _ loaded: LoadedRecords
    ) -> ReadSet {
        var needs = ReadSet()
        for key in written {
            switch key {
            // All rows of a customer change together.
            case .customerID(let id): needs.keys.formUnion(loaded.rows(with: id) + [key])
            case .customer(let customer): needs.keys.formUnion(loaded.rows(of: customer))
            // What displaces a document, or moves it on one node, says itself which rows it changes.
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
    /// The ids of the customer that has an id.
    fileprivate func rows(with id: CustomerID) -> [LedgerKey] {
        (customers[id]?.record.ids ?? []).map { .customerID(CustomerID($0, of: id.bundleId)) }
    }

    /// The ids of a customer; the customer itself if it was not loaded.
    fileprivate func rows(of customer: Customer) -> [LedgerKey] {
        rows(of: customer).keys.first.map(rows) ?? [.customer(customer)]
    }
}

extension LoadedRecords {
    /// The owners that a changed record has and the stored one has not.
    func newOwners(of record: ChainRecord) -> [Customer] {
        let old = chains[record.key]?.record
        return record.owners.map(\.customer).filter { old?.isOwned(by: $0) != true }
    }
}

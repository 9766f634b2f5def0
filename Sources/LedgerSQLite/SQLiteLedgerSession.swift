// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import DocumentPacking
import GRDB
import PurchaseLedger

/// A connection within one transaction: loads records, and writes the changes decided from those records.
///
/// Loaded records are valid only within the transaction. ``cache`` stays valid for later transactions. After a rollback
/// the session is discarded.
final class SQLiteLedgerSession: StatementRunner {
    let connection: Database
    let statements: StatementTable
    var cache: Cache
    /// Documents encoded before the transaction began, by the digest of the document. Encoding within the transaction
    /// would make all other writes wait.
    var encoded: [DocumentDigest: DocumentCodec] = [:]
    /// The chains (purchases with their renewals) loaded for the decision; `nil` for a chain without a row. A decision
    /// computes the changes from loaded records. Only differences from the loaded chains are written.
    var chains: [ChainKey: StoredChain?] = [:]
    /// The customers loaded for the decision; `nil` for a customer without a row.
    var customers: [Customer: CustomerRecord?] = [:]
    /// The names for which the decision's lookups found no document.
    var freeNames: Set<Provenance> = []
    /// The documents that the decision looked up or added. The next decision looks documents up again, because this
    /// decision may erase some of them.
    var documents = BlobCache()
    /// The sequence number of the last event, by the number of the app.
    var lastSequences: [Int64: Int64] = [:]

    init(_ connection: Database, _ cache: Cache) {
        self.connection = connection
        self.cache = cache
        statements = cache.statements[connection]
    }

    /// Row numbers of apps, scopes and shared parts of documents. They stay valid for later transactions, as do the
    /// prepared statements of each connection.
    struct Cache: Sendable {
        let statements = StatementTables()
        var apps: [String: Int64] = [:]
        var scopes: [LedgerScope: Int64] = [:]
        var sharedBlobs = BlobCache()
    }
}

// MARK: - Loading

extension SQLiteLedgerSession: SnapshotSource {
    /// Loads the records that a query names.
    ///
    /// - Parameter numbersCustomers: Whether to reserve customer numbers for unknown ids, because the load is for a
    ///   decision, which may add customers.
    func load(_ query: LedgerQuery, numbersCustomers: Bool) throws -> LedgerSnapshot {
        chains = [:]
        customers = [:]
        freeNames = []
        documents = BlobCache()
        var snapshot = try LedgerSnapshot(query, from: self)
        if numbersCustomers {
            snapshot.newNumbers = try newNumbers(for: query.keys.customerIDs.subtracting(snapshot.ids.keys))
        }
        return snapshot
    }

    /// The output of a decision that changes nothing; `nil` if it changes anything, or if it may add a customer.
    func output<Output: Sendable>(of decide: LedgerDecider<Output>, about query: LedgerQuery) throws -> Output? {
        var isUnchanged = true
        let output = try LedgerDecision.run(query, decide) { query in
            let snapshot = try load(query, numbersCustomers: false)
            if !query.keys.customerIDs.isSubset(of: snapshot.ids.keys) { isUnchanged = false }
            return snapshot
        } commit: {
            if !$0.keys.isEmpty { isUnchanged = false }
        }
        return isUnchanged ? output : nil
    }
}

// MARK: - Writing

extension SQLiteLedgerSession {
    /// Writes the changes decided from the last load.
    ///
    /// A row is written after the rows it refers to. The ids that customers lose are removed first, because the
    /// decision may give the ids to other customers.
    func write(_ changes: LedgerChanges) throws {
        for customer in changes.erasedCustomers { try removeIDs(of: customer) }
        if changes.customers.count > 1 { for record in changes.customers { try removeLostIDs(record) } }
        for record in changes.customers { try put(record) }
        for record in changes.chains { try put(record) }
        for customer in changes.erasedCustomers { try remove(customer) }
        for document in changes.documents { try add(document) }
        for (old, new) in changes.movedEvidence { try moveEvidence(from: old, to: new) }
        try eraseEvidence(for: changes.erasedChains)
        for name in changes.displacedDocuments { try erase(name) }
        for event in changes.events { try append(event) }
        for key in changes.erasedRecords { try erase(key) }
        for record in changes.records { try put(record) }
        try raise(changes.marks)
    }

    func documentCount() throws -> Int {
        try first("SELECT count(*) FROM documents", []) { try $0.next(Int.self) } ?? 0
    }

    /// Writes a row that is never read, to prove that the ledger can be written.
    func proveWritable() throws {
        try run("INSERT INTO proof (id, written) VALUES (1, 1) ON CONFLICT DO UPDATE SET written = written + 1")
    }
}

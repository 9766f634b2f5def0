// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import DocumentPacking
import GRDB
import PurchaseLedger

/// A connection within one transaction: loads records, and writes what was decided about them.
///
/// What it loaded is valid only within that transaction; ``cache`` is valid also later. After a rollback the session is
/// discarded.
final class SQLiteLedgerSession: StatementRunner {
    let connection: Database
    var cache: Cache
    /// Documents that were encoded before this transaction began, so that other writes do not wait for it.
    var encoded: [DocumentDigest: DocumentCodec] = [:]
    /// The chains that the decision loaded; `nil` for one that is not stored. Only what differs from them is written.
    var chains: [ChainKey: StoredChain?] = [:]
    /// The customers that the decision loaded; `nil` for one that is not stored.
    var customers: [Customer: CustomerRecord?] = [:]
    /// The names that the decision asked for and that no document has.
    var freeNames: Set<Provenance> = []
    /// The documents that the decision looked up or added. The next decision must look them up again, since this one
    /// may erase them.
    var documents = BlobCache()
    /// The last event's sequence number, by the number of the app.
    var lastSequences: [Int64: Int64] = [:]

    init(_ connection: Database, _ cache: Cache) {
        self.connection = connection
        self.cache = cache
    }

    /// The lookups that stay valid for later transactions.
    struct Cache: Sendable {
        var apps: [String: Int64] = [:]
        var scopes: [LedgerScope: Int64] = [:]
        var sharedBlobs = BlobCache()
    }
}

// MARK: - Loading

extension SQLiteLedgerSession: SnapshotSource {
    /// Loads all that a query names.
    ///
    /// - Parameter numbersCustomers: Whether the load is for a decision, which may add customers.
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
}

// MARK: - Writing

extension SQLiteLedgerSession {
    /// Writes what was decided about what was loaded last.
    ///
    /// Writes rows after the rows that they refer to. Removes the ids of erased customers first, since another customer
    /// may have them from now on.
    func write(_ changes: LedgerChanges) throws {
        for customer in changes.erasedCustomers { try removeIDs(of: customer) }
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

    /// Writes a row that nothing reads.
    func proveWritable() throws {
        try run("INSERT INTO proof (id, written) VALUES (1, 1) ON CONFLICT DO UPDATE SET written = written + 1")
    }
}

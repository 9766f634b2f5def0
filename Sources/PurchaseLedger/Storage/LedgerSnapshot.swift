// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The records to load, for a decision or an answer. A storage loads all of them in one consistent state.
public struct LedgerQuery: Hashable, Sendable {
    /// The chains to load.
    public var chains: Set<ChainKey> = []
    /// Transactions. The chains that contain them are loaded.
    public var transactions: Set<TransactionKey> = []
    /// The customers to load, each by one of its ids.
    public var customers: Set<CustomerID> = []
    /// The environments in which to load all chains of ``customers``.
    public var holdings: Set<Environment> = []
    /// Whether to load the owners of all chains in the snapshot.
    public var owners = false
    /// Documents to look up, without their content: whether they are stored.
    public var names: Set<Provenance> = []
    /// What documents say about their purchases. The names of the documents that say so are loaded.
    public var wordings: Set<WordingKey> = []
    /// Documents that the decision may store, so that a storage can prepare them outside its transaction.
    public var arriving: [Evidence] = []
    /// Documents to load with their content.
    public var documents: Set<Provenance> = []
    /// Chains. The names of all their documents are loaded.
    public var evidence: Set<ChainKey> = []
    /// The records to load.
    public var records: Set<RecordKey> = []

    public init() {}

    /// Makes a query by filling in an empty one.
    package init(_ fill: (inout LedgerQuery) -> Void) {
        self.init()
        fill(&self)
    }

    /// Everything that either query names.
    public func union(_ other: LedgerQuery) -> LedgerQuery {
        var query = self
        query.chains.formUnion(other.chains)
        query.transactions.formUnion(other.transactions)
        query.customers.formUnion(other.customers)
        query.holdings.formUnion(other.holdings)
        query.owners = owners || other.owners
        query.names.formUnion(other.names)
        query.wordings.formUnion(other.wordings)
        query.arriving += other.arriving
        query.documents.formUnion(other.documents)
        query.evidence.formUnion(other.evidence)
        query.records.formUnion(other.records)
        return query
    }
}

/// The stored records that a query names, in one consistent state.
public struct LedgerSnapshot: Sendable {
    /// The query that this answers.
    public var query: LedgerQuery
    /// The chains of the query that exist.
    public var chains: [ChainKey: ChainRecord] = [:]
    /// The chain of each transaction. If documents name different chains, for example after a migration, the newest
    /// document decides.
    public var transactions: [TransactionKey: ChainKey] = [:]
    /// The customer of each id in the query that has one.
    public var ids: [CustomerID: Customer] = [:]
    /// The customers of the query, and the owners of its chains.
    public var customers: [Customer: CustomerRecord] = [:]
    /// An unused number for each id in the query that has no customer. Only a snapshot for a decision has these.
    public var newNumbers: [CustomerID: Int64] = [:]
    /// The documents of `query.names` that are stored and can be read.
    public var names: Set<Provenance> = []
    /// The documents that were stored with each wording in `query.wordings`, if there are any, in any order.
    public var wordings: [WordingKey: [WordedDocument]] = [:]
    /// The documents of `query.documents` that are stored.
    public var documents: [Provenance: StoredDocument] = [:]
    /// The documents of each chain in `query.evidence`.
    public var evidence: [ChainKey: [DocumentReference]] = [:]
    /// The records of the query that exist.
    public var records: [RecordKey: LedgerRecord] = [:]

    public init(_ query: LedgerQuery) {
        self.query = query
    }

    /// The customer with an id; `nil` if there is none.
    public func customer(_ id: CustomerID) -> CustomerRecord? { ids[id].flatMap { customers[$0] } }

    /// The loaded chains that a customer owns, ordered by key.
    public func chains(of customer: Customer) -> [ChainRecord] {
        chains.values.filter { $0.isOwned(by: customer) }.sorted { $0.key < $1.key }
    }
}

extension LedgerSnapshot {
    /// A loaded record as a value; `nil` if there is none.
    ///
    /// - Throws: ``LedgerStorageError``: `damaged` if it cannot be read.
    public func value<Value: RecordValue>(
        _ key: RecordKey, as _: Value.Type = Value.self
    ) throws(LedgerStorageError) -> Value? {
        guard let record = records[key] else { return nil }
        return try Value(record)
    }
}

/// The name of a stored document, and the chains that it is evidence for.
public struct DocumentReference: Hashable, Sendable {
    /// The name under which it is stored.
    public var name: Provenance
    /// The chains that the document is about.
    public var chains: Set<ChainKey>

    public init(_ name: Provenance, about chains: Set<ChainKey>) {
        self.name = name
        self.chains = chains
    }
}

// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The records to load for a decision or an answer. A storage loads them in a single consistent state.
public struct LedgerQuery: Hashable, Sendable {
    /// The keys of the records.
    public var keys: Set<LedgerKey>
    /// Whether to load the owners of all loaded purchases (chains).
    public var owners: Bool
    /// The documents that the decision may store, so that a storage can prepare them outside its transaction.
    public var arriving: [Evidence]

    public init(_ keys: some Sequence<LedgerKey>, owners: Bool = false, arriving: [Evidence] = []) {
        self.keys = Set(keys)
        self.owners = owners
        self.arriving = arriving
    }

    /// Makes an empty query.
    public init() { self.init([]) }

    /// Queries the customers with some ids, and the customers' chains in some environments.
    ///
    /// - Parameter settled: Chains that may be left out.
    public static func holdings(
        of ids: some Sequence<CustomerID>, in environments: some Sequence<Environment>,
        besides settled: SettledChains? = nil
    ) -> LedgerQuery {
        LedgerQuery(
            ids.flatMap { id in
                [.customerID(id)]
                    + environments.map { environment in
                        settled.map { .openHoldings(id, environment, $0) } ?? .holdings(id, environment)
                    }
            })
    }

    /// The union of both queries.
    public func union(_ other: LedgerQuery) -> LedgerQuery {
        LedgerQuery(
            keys.union(other.keys), owners: owners || other.owners, arriving: arriving + other.arriving)
    }
}

/// The stored records of a query, in a single consistent state.
public struct LedgerSnapshot: Sendable {
    /// The query of this snapshot.
    public var query: LedgerQuery
    /// The existing chains of the query.
    public var chains: [ChainKey: ChainRecord] = [:]
    /// The chain of each transaction of the query. If documents name different chains, all of them are in ``chains``,
    /// and this is the one in which the transaction counts (``Chain/counts(_:)``).
    public var transactions: [TransactionKey: ChainKey] = [:]
    /// The customer of each id in the query. Ids without a customer are missing.
    public var ids: [CustomerID: Customer] = [:]
    /// The customers of the query, and the owners of its chains.
    public var customers: [Customer: CustomerRecord] = [:]
    /// An unused number for each of the query's ids that has no customer. A snapshot that is not for a decision may
    /// lack these numbers.
    public var newNumbers: [CustomerID: Int64] = [:]
    /// The names of the query's documents that are stored and readable.
    public var names: Set<Provenance> = []
    /// The documents stored with each ``Wording`` of the query, in any order. Wordings without documents are missing.
    public var wordings: [WordingKey: [WordedDocument]] = [:]
    /// The stored documents of the query, with their content.
    public var documents: [Provenance: StoredDocument] = [:]
    /// The documents of each chain whose ``LedgerKey/evidence(_:)`` the query asks for.
    public var evidence: [ChainKey: [DocumentReference]] = [:]
    /// The unknown products of the chains that ``LedgerKey/openHoldings(_:_:_:)`` left out, by the environment.
    public var unknownProducts: [Environment: Set<String>] = [:]
    /// The existing records of the query, by key.
    public var records: [RecordKey: LedgerRecord] = [:]

    public init(_ query: LedgerQuery) {
        self.query = query
    }

    /// The customer with an id; `nil` if the id has no customer.
    public func customer(_ id: CustomerID) -> CustomerRecord? { ids[id].flatMap { customers[$0] } }

    /// The loaded chains of a customer, ordered by key.
    public func chains(of customer: Customer) -> [ChainRecord] {
        chains.values.filter { $0.isOwned(by: customer) }.sorted { $0.key < $1.key }
    }
}

extension LedgerSnapshot {
    /// The value of a loaded record; `nil` if the record is missing.
    ///
    /// - Throws: ``LedgerStorageError``: `damaged` if the record cannot be read.
    public func value<Value: RecordValue>(
        _ key: RecordKey, as _: Value.Type = Value.self
    ) throws(LedgerStorageError) -> Value? {
        guard let record = records[key] else { return nil }
        return try Value(record)
    }
}

/// The lookups by which a storage answers a query. A missing record is `nil`, or left out of a list.
package protocol SnapshotSource {
    func customer(_ id: CustomerID) throws -> CustomerRecord?
    func customer(_ customer: Customer) throws -> CustomerRecord?
    /// - Returns: The record. The caller treats an empty record like a missing record.
    func chain(_ key: ChainKey) throws -> ChainRecord?
    /// The chains that have a transaction, or residue of it (``Chain/residue``), in any order.
    func chains(of transaction: TransactionKey) throws -> [ChainKey]
    func chains(of customer: Customer, in environment: Environment) throws -> [ChainRecord]
    /// The chains of a customer that are not settled, and the unknown products of the others.
    func openChains(
        of customer: Customer, in environment: Environment, besides settled: SettledChains
    ) throws -> ([ChainRecord], unknownProducts: Set<String>)
    /// Whether a document is stored and can be read.
    func isStored(_ name: Provenance) throws -> Bool
    func document(_ name: Provenance) throws -> StoredDocument?
    func documents(_ key: WordingKey) throws -> [WordedDocument]
    func evidence(for key: ChainKey) throws -> [DocumentReference]
    func record(_ key: RecordKey) throws -> LedgerRecord?
}

extension LedgerSnapshot {
    /// Loads the records of a query, without ``newNumbers``.
    package init(_ query: LedgerQuery, from source: some SnapshotSource) throws {
        self.init(query)
        for id in query.keys.customerIDs {
            guard let record = try source.customer(id) else { continue }
            ids[id] = record.customer
            customers[record.customer] = record
        }
        for key in query.keys { try add(key, from: source) }
        guard query.owners else { return }
        for owner in Set(chains.values.flatMap(\.owners).map(\.customer)) {
            customers[owner] = try source.customer(owner)
        }
    }

    private mutating func add(_ key: LedgerKey, from source: some SnapshotSource) throws {
        switch key {
        case .chain(let key): try addChain(key, from: source)
        case .transaction(let transaction):
            let keys = try source.chains(of: transaction)
            for key in keys { try addChain(key, from: source) }
            transactions[transaction] = keys.compactMap { chains[$0] }.key(of: transaction)
        case .holdings(let id, let environment):
            guard let customer = ids[id] else { break }
            for record in try source.chains(of: customer, in: environment) { chains[record.key] = record }
        case .openHoldings(let id, let environment, let settled):
            guard let customer = ids[id] else { break }
            let (records, unknown) = try source.openChains(of: customer, in: environment, besides: settled)
            for record in records { chains[record.key] = record }
            unknownProducts[environment, default: []].formUnion(unknown)
        case .document(let name): if try source.isStored(name) { names.insert(name) }
        case .content(let name): documents[name] = try source.document(name)
        case .wording(let key):
            let found = try source.documents(key)
            if !found.isEmpty { wordings[key] = found }
        case .evidence(let key):
            let found = try source.evidence(for: key)
            if !found.isEmpty { evidence[key] = found }
        case .record(let key): records[key] = try source.record(key)
        case .customerID, .customer, .events, .marks: break
        }
    }

    private mutating func addChain(_ key: ChainKey, from source: some SnapshotSource) throws {
        guard let record = try source.chain(key), record != ChainRecord(key) else { return }
        chains[key] = record
    }
}

extension Sequence<ChainRecord> {
    /// The chain in which a transaction counts, or else that with its newest document.
    package func key(of transaction: TransactionKey) -> ChainKey? {
        let named = compactMap { record -> (Int, Provenance, ChainKey)? in
            let statements = record.chain.transactions[transaction.transactionId]?.statements
            let rank = record.chain.counts(transaction.transactionId) ? 1 : 0
            return statements?.map(\.provenance).max().map { (rank, $0, record.key) }
        }
        return named.max { $0 < $1 }?.2
    }
}

/// The name of a stored document, with the chains for which the document is evidence.
public struct DocumentReference: Hashable, Sendable {
    /// The name under which the document is stored.
    public var name: Provenance
    /// The chains that the document is about.
    public var chains: Set<ChainKey>

    public init(_ name: Provenance, about chains: Set<ChainKey>) {
        self.name = name
        self.chains = chains
    }
}

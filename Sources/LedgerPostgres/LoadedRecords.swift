// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The records to load: those of a query, those that it leads to, and those that its changes need.
struct Footprint: Hashable {
    var chains: Set<ChainKey> = []
    var transactions: Set<TransactionKey> = []
    var customers: Set<CustomerID> = []
    /// Those of ``customers`` to load together with the chains that they may own.
    var holders: Set<CustomerID> = []
    /// Customers whose holdings to load, on several nodes.
    var holdings: Set<Customer> = []
    /// The environments of those chains.
    var environments: Set<Environment> = []
    /// Customers to load by number, with all of their ids.
    var numbers: Set<Customer> = []
    var names: Set<Provenance> = []
    var wordings: Set<WordingKey> = []
    var documents: Set<Provenance> = []
    /// What packed documents name.
    var parts: Set<PartName> = []
    var evidence: Set<ChainKey> = []
    /// Documents that are evidence for chains with other homes, to find out for which.
    var places: Set<DocumentPlace> = []
    var records: Set<RecordKey> = []

    init() {}

    init(_ query: LedgerQuery) {
        chains = query.chains.union(query.evidence)
        (transactions, customers) = (query.transactions, query.customers)
        if !query.holdings.isEmpty { (holders, environments) = (query.customers, query.holdings) }
        (names, wordings, documents) = (query.names, query.wordings, query.documents)
        (evidence, records) = (query.evidence, query.records)
    }

    mutating func formUnion(_ other: Footprint) {
        chains.add(other.chains)
        transactions.add(other.transactions)
        customers.add(other.customers)
        holders.add(other.holders)
        holdings.add(other.holdings)
        environments.add(other.environments)
        numbers.add(other.numbers)
        names.add(other.names)
        wordings.add(other.wordings)
        documents.add(other.documents)
        parts.add(other.parts)
        evidence.add(other.evidence)
        places.add(other.places)
        records.add(other.records)
    }

    func contains(_ other: Footprint) -> Bool {
        other.chains.isSubset(of: chains) && other.transactions.isSubset(of: transactions)
            && other.customers.isSubset(of: customers) && other.holders.isSubset(of: holders)
            && other.holdings.isSubset(of: holdings) && other.environments.isSubset(of: environments)
            && other.numbers.isSubset(of: numbers) && other.names.isSubset(of: names)
            && other.wordings.isSubset(of: wordings) && other.documents.isSubset(of: documents)
            && other.parts.isSubset(of: parts) && other.places.isSubset(of: places)
            && other.evidence.isSubset(of: evidence) && other.records.isSubset(of: records)
    }

    /// The apps and environments of all records.
    var scopes: Set<LedgerScope> {
        Set(chains.map(\.scope) + transactions.map(\.scope) + wordings.map(\.chain.scope))
            .union(records.compactMap(\.owner.scope))
    }

    /// The apps of all records that have no environment.
    var apps: Set<String> {
        Set(customers.map(\.bundleId) + numbers.map(\.bundleId)).union(records.compactMap(\.owner.bundleId))
    }
}

extension Set {
    /// Adds the elements of another set. Most sets of a footprint are empty.
    fileprivate mutating func add(_ other: Set) {
        if isEmpty { self = other } else if !other.isEmpty { formUnion(other) }
    }
}

/// What was loaded in one state of the database. A record that is not there does not exist.
struct LoadedRecords {
    var chains: [ChainKey: StoredChain] = [:]
    /// The chains that may contain each transaction.
    var candidates: [TransactionKey: Set<ChainKey>] = [:]
    var customers: [CustomerID: StoredCustomer] = [:]
    /// The chains that some customers may own, in the environments that were asked for.
    var holdings: [Customer: Set<ChainKey>] = [:]
    var names: Set<Provenance> = []
    var wordings: [WordingKey: [WordedDocument]] = [:]
    var rows: [Provenance: DocumentRow] = [:]
    var parts: [PartName: [UInt8]] = [:]
    var evidence: [ChainKey: [DocumentReference]] = [:]
    /// Where the evidence for each chain is that is not at the chain's home, if Citus distributes the tables.
    var mentions: [ChainKey: [DocumentPlace]] = [:]
    /// The chains that each document at a place is evidence for.
    var subjects: [DocumentPlace: Set<ChainKey>] = [:]
    /// The homes of documents, as far as they are known; `nil` unless Citus distributes the tables.
    var homes: [Provenance: String]?
    var records: [RecordKey: StoredRecord] = [:]

    /// The rows of a customer, one for each of its ids.
    func rows(of customer: Customer) -> [CustomerID: StoredCustomer] {
        customers.filter { $0.value.number == customer.number && $0.key.bundleId == customer.bundleId }
    }
}

/// A row of `chains`.
struct StoredChain {
    var version: Int64
    var record: ChainRecord
}

/// A row of `records`.
struct StoredRecord {
    var version: Int64
    var record: LedgerRecord
}

/// A row of `customers`.
struct StoredCustomer {
    var version: Int64
    var number: Int64
    var isEstablished: Bool
    var consentedAt: Timestamp?
    var ids: [String]

    /// Whether another row says the same, apart from its version.
    func isSame(as other: StoredCustomer) -> Bool {
        (number, isEstablished, consentedAt) == (other.number, other.isEstablished, other.consentedAt)
            && ids == other.ids
    }

    func customer(_ bundleId: String) -> Customer { Customer(number: number, bundleId: bundleId) }

    func record(_ bundleId: String) -> CustomerRecord {
        var record = CustomerRecord(customer(bundleId), ids: ids, isEstablished: isEstablished)
        record.consentedAt = consentedAt
        return record
    }
}

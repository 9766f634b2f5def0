// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// What to load: what queries name, what that leads to, and what their changes need.
struct ReadSet: Hashable {
    var keys: Set<LedgerKey> = []
    var dependencies: Set<Dependency> = []

    mutating func formUnion(_ other: ReadSet) {
        keys.formUnion(other.keys)
        dependencies.formUnion(other.dependencies)
    }

    func contains(_ other: ReadSet) -> Bool {
        other.keys.isSubset(of: keys) && other.dependencies.isSubset(of: dependencies)
    }

    var scopes: Set<LedgerScope> { Set(keys.compactMap(\.scope)) }

    var apps: Set<String> { Set(keys.compactMap(\.bundleId)) }
}

/// What rows lead to besides keys.
enum Dependency: Hashable {
    /// The names of the chains that a customer may own in an environment, on several nodes.
    case holdings(Customer, Environment)
    /// What packed documents name.
    case part(PartName)
    /// A document that is evidence for chains with other homes, to find out for which.
    case location(DocumentLocation)
}

/// What was loaded in one state of the database. A record that is not there does not exist.
struct LoadedRecords {
    var chains: [ChainKey: Versioned<ChainRecord>] = [:]
    /// The chains that may contain each transaction.
    var candidates: [TransactionKey: Set<ChainKey>] = [:]
    /// Each of a customer's ids has a row with the whole record.
    var customers: [CustomerID: Versioned<CustomerRecord>] = [:]
    /// The chains that some customers may own, in the environments that were asked for.
    var holdings: [Customer: Set<ChainKey>] = [:]
    var names: Set<Provenance> = []
    var wordings: [WordingKey: [WordedDocument]] = [:]
    var rows: [Provenance: DocumentRow] = [:]
    var parts: [PartName: [UInt8]] = [:]
    var evidence: [ChainKey: [DocumentReference]] = [:]
    /// Where the evidence for each chain is that is not at the chain's home, if Citus distributes the tables.
    var mentions: [ChainKey: [DocumentLocation]] = [:]
    /// The chains that each document at a location is evidence for.
    var subjects: [DocumentLocation: Set<ChainKey>] = [:]
    /// The homes of documents, as far as they are known; `nil` unless Citus distributes the tables.
    var homes: [Provenance: String]?
    var records: [RecordKey: Versioned<LedgerRecord>] = [:]

    /// The rows of a customer, one for each of its ids.
    func rows(of customer: Customer) -> [CustomerID: Versioned<CustomerRecord>] {
        customers.filter { $0.value.record.customer == customer }
    }
}

/// A row with its version.
struct Versioned<Record> {
    var version: Int64
    var record: Record
}

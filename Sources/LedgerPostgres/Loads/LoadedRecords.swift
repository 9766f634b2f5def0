// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The records to load: records named by queries, records found through loaded records, and records needed to commit
/// changes.
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

/// Rows to load that have no `LedgerKey`. They become known only when other records are loaded.
enum Dependency: Hashable {
    /// The keys of all chains that a customer ever owned in an environment. Used only if Citus distributes the tables.
    case holdings(Customer, Environment)
    /// A part stored apart from its document, see ``PackedDocument``.
    case part(PartName)
    /// A document with a different ``PurchaseLedger/Evidence/home`` than its chain. The document's row is loaded to
    /// learn all its chains. Used only if Citus distributes the tables.
    case location(DocumentLocation)
}

/// The loaded records. Without Citus, they are from a single state of the database, except for ``parts``, whose content
/// never changes. A requested record missing here did not exist, or was not looked up because it was presumed new, see
/// ``RepeatedNotifications``.
struct LoadedRecords {
    var chains: [ChainKey: Versioned<ChainRecord>] = [:]
    /// The chains that have each transaction, or residue of it.
    var candidates: [TransactionKey: Set<ChainKey>] = [:]
    /// Customers by id. Every id of a customer has a row with the whole record.
    var customers: [CustomerID: Versioned<CustomerRecord>] = [:]
    /// All chains that each customer ever owned in the requested environments. Some may have other owners by now.
    var holdings: [Customer: Set<ChainKey>] = [:]
    /// The unknown products of the settled chains left out, by customer and environment.
    var unknownProducts: [Customer: [Environment: Set<String>]] = [:]
    var names: Set<Provenance> = []
    var wordings: [WordingKey: [WordedDocument]] = [:]
    var rows: [Provenance: DocumentRow] = [:]
    var parts: [PartName: [UInt8]] = [:]
    var evidence: [ChainKey: [DocumentReference]] = [:]
    /// The locations of each chain's documents with a different ``PurchaseLedger/Evidence/home`` than the chain, if
    /// Citus distributes the tables.
    var mentions: [ChainKey: [DocumentLocation]] = [:]
    /// The chains of the document at each location.
    var subjects: [DocumentLocation: Set<ChainKey>] = [:]
    /// The known homes of documents, if Citus distributes the tables; otherwise `nil`.
    var homes: [Provenance: String]?
    var records: [RecordKey: Versioned<LedgerRecord>] = [:]

    /// The loaded rows of a customer, a row per loaded id.
    func rows(of customer: Customer) -> [CustomerID: Versioned<CustomerRecord>] {
        customers.filter { $0.value.record.customer == customer }
    }
}

/// A record with the version of its row.
struct Versioned<Record> {
    var version: Int64
    var record: Record
}

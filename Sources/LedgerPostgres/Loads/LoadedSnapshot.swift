// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Builds snapshots from loaded records, and finds the further records needed for a snapshot.

extension LoadedRecords {
    /// The further records found through the loaded records: chains of transactions and customers, owners of chains if
    /// a query asks for them, and parts of documents. With Citus, also documents with a different
    /// ``PurchaseLedger/Evidence/home`` than their chain.
    func dependencies(of queries: [LedgerQuery]) -> ReadSet {
        var found = ReadSet()
        for query in queries {
            found.keys.formUnion(chainsFound(for: query).map(LedgerKey.chain))
            // Without Citus, the keys of all chains ever owned by a customer were loaded together with the customer.
            if homes != nil { found.dependencies.formUnion(query.keys.compactMap(holdings)) }
        }
        found.dependencies.formUnion(parts(besides: []).map(Dependency.part))
        found.dependencies.formUnion(mentions.values.joined().map(Dependency.location))
        guard queries.contains(where: \.owners) else { return found }
        let known = Set(customers.values.map(\.record.customer))
        let owners = Set(chains.values.flatMap(\.record.owners).map(\.customer))
        found.keys.formUnion(owners.subtracting(known).map(LedgerKey.customer))
        return found
    }

    private func holdings(_ key: LedgerKey) -> Dependency? {
        guard case .holdings(let id, let environment) = key.whole else { return nil }
        return customers[id].map { .holdings($0.record.customer, environment) }
    }

    /// The names of all parts stored apart from the loaded documents, see ``PackedDocument``.
    ///
    /// - Parameter known: Parts to leave out.
    func parts(besides known: Set<PartName>) -> Set<PartName> {
        let tokens = parts.compactMap { name, content in if case .document = name { content } else { nil } }
        return (rows.values.map(\.content) + tokens).reduce(into: []) { all, content in
            all.formUnion(PackedDocument.parts(of: content).subtracting(known))
        }
    }

    /// The chains that have a query's transactions, and the chains ever owned by the query's customers.
    func chainsFound(for query: LedgerQuery) -> Set<ChainKey> {
        query.keys.reduce(into: []) { found, key in
            switch homes == nil ? key : key.whole {
            case .transaction(let key): found.formUnion(candidates[key] ?? [])
            case .holdings(let id, let environment): found.formUnion(chains(heldBy: id, environment))
            default: break
            }
        }
    }

    /// The chains that the customer with an id ever owned in an environment.
    private func chains(heldBy id: CustomerID, _ environment: Environment) -> [ChainKey] {
        customers[id].map { held(by: $0.record.customer, environment) } ?? []
    }

    fileprivate func held(by customer: Customer, _ environment: Environment) -> [ChainKey] {
        (holdings[customer] ?? []).filter { $0.scope.environment == environment }
    }
}

extension LedgerKey {
    /// The key of all holdings instead of open holdings. On Citus each chain is loaded alone, and all are loaded.
    fileprivate var whole: LedgerKey {
        guard case .openHoldings(let id, let environment, _) = self else { return self }
        return .holdings(id, environment)
    }
}

extension LoadedRecords: DocumentNames, SnapshotSource {
    func customer(_ id: CustomerID) -> CustomerRecord? { customers[id]?.record }

    func customer(_ customer: Customer) -> CustomerRecord? {
        customers.values.first { $0.record.customer == customer }?.record
    }

    func chain(_ key: ChainKey) -> ChainRecord? { chains[key]?.record }

    func chains(of transaction: TransactionKey) -> [ChainKey] { Array(candidates[transaction] ?? []) }

    func chains(of customer: Customer, in environment: Environment) -> [ChainRecord] {
        held(by: customer, environment).compactMap { key in
            chains[key].flatMap { $0.record.isOwned(by: customer) ? $0.record : nil }
        }
    }

    func openChains(
        of customer: Customer, in environment: Environment, besides settled: SettledChains
    ) -> ([ChainRecord], unknownProducts: Set<String>) {
        (chains(of: customer, in: environment), unknownProducts[customer]?[environment] ?? [])
    }

    func isStored(_ name: Provenance) -> Bool { names.contains(name) }

    func document(_ name: Provenance) -> StoredDocument? { rows[name]?.stored(parts) }

    func documents(_ key: WordingKey) -> [WordedDocument] { wordings[key] ?? [] }

    func evidence(for key: ChainKey) -> [DocumentReference] { evidence[key] ?? [] }

    func record(_ key: RecordKey) -> LedgerRecord? { records[key]?.record }
}

extension LedgerSnapshot {
    /// Builds the snapshot of a query from its loaded records. The numbers are for ids without a customer.
    init(_ query: LedgerQuery, _ loaded: LoadedRecords, numbers: [CustomerID: Int64] = [:]) throws {
        try self.init(query, from: loaded)
        for id in query.keys.customerIDs where ids[id] == nil { newNumbers[id] = numbers[id] }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Snapshots of what was loaded, and what they need besides what their queries name.

extension LoadedRecords {
    /// The records that the loaded ones lead to: chains of transactions and of customers, owners, parts of documents.
    func leads(of queries: [LedgerQuery]) -> Footprint {
        var leads = Footprint()
        for query in queries {
            leads.chains.formUnion(chainsFound(for: query))
            if !query.holdings.isEmpty {
                leads.holdings.formUnion(customers(of: query).filter { holdings[$0] == nil })
            }
        }
        leads.parts = parts(besides: [])
        for places in mentions.values { leads.places.formUnion(places) }
        guard queries.contains(where: \.owners) else { return leads }
        let known = Set(customers.map { Customer(number: $1.number, bundleId: $0.bundleId) })
        leads.numbers = Set(chains.values.flatMap(\.record.owners).map(\.customer)).subtracting(known)
        return leads
    }

    /// The customers of a query, as far as there are any.
    private func customers(of query: LedgerQuery) -> Set<Customer> {
        Set(query.customers.compactMap { id in customers[id]?.customer(id.bundleId) })
    }

    /// What packed documents name.
    ///
    /// - Parameter known: Those not to return.
    func parts(besides known: Set<PartName>) -> Set<PartName> {
        let tokens = parts.compactMap { name, content in if case .document = name { content } else { nil } }
        return (rows.values.map(\.content) + tokens).reduce(into: []) { all, content in
            all.formUnion(PackedDocument.parts(of: content).subtracting(known))
        }
    }

    /// The chains of a query's transactions, and those that its customers may own.
    func chainsFound(for query: LedgerQuery) -> Set<ChainKey> {
        query.transactions.reduce(into: Set(holdings(of: query))) { $0.formUnion(candidates[$1] ?? []) }
    }

    /// The chains that the customers of a query may own.
    fileprivate func holdings(of query: LedgerQuery) -> [ChainKey] {
        guard !query.holdings.isEmpty else { return [] }
        return customers(of: query).flatMap { customer in
            (holdings[customer] ?? []).filter { query.holdings.contains($0.scope.environment) }
        }
    }

    /// The chain that the newest document about a transaction names.
    fileprivate func chain(of transaction: TransactionKey) -> ChainKey? {
        let named = (candidates[transaction] ?? []).compactMap { key -> (Provenance, ChainKey)? in
            let statements = chains[key]?.record.chain.transactions[transaction.transactionId]?.statements
            return statements?.map(\.provenance).max().map { ($0, key) }
        }
        return named.max { $0 < $1 }?.1
    }
}

extension LedgerSnapshot {
    /// What a query names, from the records that were loaded for it.
    init(_ query: LedgerQuery, _ loaded: LoadedRecords, numbers: [CustomerID: Int64] = [:]) {
        self.init(query)
        for id in query.customers {
            guard let row = loaded.customers[id] else {
                newNumbers[id] = numbers[id]
                continue
            }
            let record = row.record(id.bundleId)
            (ids[id], customers[record.customer]) = (record.customer, record)
        }
        for transaction in query.transactions { transactions[transaction] = loaded.chain(of: transaction) }
        let keys = query.chains.union(transactions.values)
        for key in keys.union(loaded.holdings(of: query)) {
            guard let record = loaded.chains[key]?.record, record != ChainRecord(key) else { continue }
            let isHeld = record.owners.contains { customers[$0.customer] != nil }
            if keys.contains(key) || isHeld { chains[key] = record }
        }
        if query.owners { addOwners(loaded) }
        names = loaded.names.intersection(query.names)
        wordings = loaded.wordings.filter { query.wordings.contains($0.key) && !$0.value.isEmpty }
        for name in query.documents { documents[name] = loaded.rows[name]?.stored(loaded.parts) }
        evidence = loaded.evidence.filter { query.evidence.contains($0.key) && !$0.value.isEmpty }
        records = loaded.records.filter { query.records.contains($0.key) }.mapValues(\.record)
    }

    private mutating func addOwners(_ loaded: LoadedRecords) {
        let owners = Set(chains.values.flatMap(\.owners).map(\.customer))
        for (id, row) in loaded.customers {
            let record = row.record(id.bundleId)
            if owners.contains(record.customer) { customers[record.customer] = record }
        }
    }
}

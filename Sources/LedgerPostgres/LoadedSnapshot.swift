// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Snapshots of what was loaded, and what they need besides what their queries name.

extension LoadedRecords {
    /// What the loaded records lead to: chains of transactions and of customers, owners, parts of documents.
    func leads(of queries: [LedgerQuery]) -> Footprint {
        var found = Footprint()
        for query in queries {
            found.keys.formUnion(chainsFound(for: query).map(LedgerKey.chain))
            // A single node has loaded them with their customers.
            if homes != nil { found.leads.formUnion(query.keys.compactMap(holdings)) }
        }
        found.leads.formUnion(parts(besides: []).map(Lead.part))
        found.leads.formUnion(mentions.values.joined().map(Lead.place))
        guard queries.contains(where: \.owners) else { return found }
        let known = Set(customers.map { Customer(number: $1.number, bundleId: $0.bundleId) })
        let owners = Set(chains.values.flatMap(\.record.owners).map(\.customer))
        found.keys.formUnion(owners.subtracting(known).map(LedgerKey.customer))
        return found
    }

    private func holdings(_ key: LedgerKey) -> Lead? {
        guard case .holdings(let id, let environment) = key else { return nil }
        return customers[id].map { .holdings($0.customer(id.bundleId), environment) }
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
        query.keys.reduce(into: []) { found, key in
            switch key {
            case .transaction(let key): found.formUnion(candidates[key] ?? [])
            case .holdings(let id, let environment): found.formUnion(chains(heldBy: id, environment))
            default: break
            }
        }
    }

    /// The chains that the customer with an id may own in an environment.
    fileprivate func chains(heldBy id: CustomerID, _ environment: Environment) -> [ChainKey] {
        guard let customer = customers[id]?.customer(id.bundleId) else { return [] }
        return (holdings[customer] ?? []).filter { $0.scope.environment == environment }
    }

    /// The chain that the newest document about a transaction names.
    fileprivate func chain(of transaction: TransactionKey) -> ChainKey? {
        let named = (candidates[transaction] ?? []).compactMap { key -> (Provenance, ChainKey)? in
            let statements = chains[key]?.record.chain.transactions[transaction.transactionId]?.statements
            return statements?.map(\.provenance).max().map { ($0, key) }
        }
        return named.max { $0 < $1 }?.1
    }

    /// The record of a chain; `nil` if there is none, or an empty one.
    fileprivate func record(_ key: ChainKey) -> ChainRecord? {
        guard let record = chains[key]?.record, record != ChainRecord(key) else { return nil }
        return record
    }
}

extension LedgerSnapshot {
    /// What a query names, from the records that were loaded for it.
    init(_ query: LedgerQuery, _ loaded: LoadedRecords, numbers: [CustomerID: Int64] = [:]) {
        self.init(query)
        for id in query.keys.customerIDs {
            guard let row = loaded.customers[id] else {
                newNumbers[id] = numbers[id]
                continue
            }
            let record = row.record(id.bundleId)
            ids[id] = record.customer
            customers[record.customer] = record
        }
        for key in query.keys { add(key, loaded) }
        if query.owners { addOwners(loaded) }
    }

    private mutating func add(_ key: LedgerKey, _ loaded: LoadedRecords) {
        switch key {
        case .chain(let key): chains[key] = loaded.record(key)
        case .transaction(let transaction):
            guard let key = loaded.chain(of: transaction) else { break }
            transactions[transaction] = key
            chains[key] = loaded.record(key)
        case .holdings(let id, let environment):
            guard let customer = ids[id] else { break }
            for key in loaded.chains(heldBy: id, environment) {
                if let record = loaded.record(key), record.isOwned(by: customer) { chains[key] = record }
            }
        case .document(let name): if loaded.names.contains(name) { names.insert(name) }
        case .content(let name): documents[name] = loaded.rows[name]?.stored(loaded.parts)
        case .wording(let key): if let found = loaded.wordings[key], !found.isEmpty { wordings[key] = found }
        case .evidence(let key): if let found = loaded.evidence[key], !found.isEmpty { evidence[key] = found }
        case .record(let key): records[key] = loaded.records[key]?.record
        case .customerID, .customer, .events, .marks: break
        }
    }

    private mutating func addOwners(_ loaded: LoadedRecords) {
        let owners = Set(chains.values.flatMap(\.owners).map(\.customer))
        for (id, row) in loaded.customers {
            let record = row.record(id.bundleId)
            if owners.contains(record.customer) { customers[record.customer] = record }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The statements of a load, each with a closure that reads the result into the loaded records. The files in `Rows` add
/// their statements.
struct LoadPlan {
    typealias Reader = (_ rows: PostgresRows, _ loaded: inout LoadedRecords) throws -> Void

    let scopes: ScopeNumbers
    /// The known homes of documents (see ``PurchaseLedger/Evidence/home``), if Citus distributes the tables; otherwise
    /// `nil`.
    let homes: [Provenance: String]?
    private(set) var statements: [PostgresStatement] = []
    private var readers: [Reader] = []

    /// Whether a single statement loads several records of a kind, and a customer together with the customer's chains.
    /// If Citus distributes the tables, each record has its own statement, and customers are loaded before their
    /// chains.
    var shares: Bool { homes == nil }

    /// - Parameters:
    ///   - new: Documents not to look up, because they are presumed new, see ``RepeatedNotifications``.
    ///   - homes: The known homes of documents, if Citus distributes the tables; otherwise `nil`.
    init(
        _ readSet: ReadSet, except new: Set<Provenance> = [], _ scopes: ScopeNumbers,
        homes: [Provenance: String]?
    ) {
        self.scopes = scopes
        self.homes = homes
        let wanted = Wanted(readSet)
        let chains = together(wanted.chains, \.scope)
        let names = Array(wanted.names.subtracting(new))
        if shares, let (scope, keys) = chains.first, chains.count == 1, !names.isEmpty {
            load(keys, in: scope, lookingUp: names)
        } else {
            for (scope, keys) in chains { load(keys, in: scope) }
            look(up: names)
        }
        load(wanted.wordings)
        for key in wanted.transactions { load(key) }
        let holders = shares ? wanted.holders : []
        for (app, ids) in together(holders, \.bundleId) { loadHolders(ids, of: app, in: wanted.environments) }
        let open = shares ? wanted.open.filter { !holders.contains($0.id) } : []
        for (app, open) in Dictionary(grouping: open, by: \.id.bundleId) { loadHolders(open, of: app) }
        let alone = wanted.ids.subtracting(holders).subtracting(open.map(\.id))
        for (app, ids) in together(alone, \.bundleId) { load(ids, of: app) }
        for customer in wanted.customers { load(customer) }
        for (customer, environments) in wanted.holdings { loadHoldings(of: customer, in: environments) }
        if shares {
            load(wanted.contents)
            load(wanted.parts)
            loadEvidence(for: wanted.evidence)
        } else {
            for name in wanted.contents { load(name) }
            for part in wanted.parts { load(part) }
            for key in wanted.evidence { loadEvidenceAtHome(for: key) }
        }
        for location in wanted.locations { load(location) }
        for key in wanted.records { load(key) }
    }

    /// The keys in groups; the keys of a group share a statement.
    private func together<Key, Group: Hashable>(_ keys: Set<Key>, _ group: (Key) -> Group) -> [(Group, [Key])] {
        guard shares, keys.count > 1 else { return keys.map { (group($0), [$0]) } }
        return Dictionary(grouping: keys, by: group).map { ($0.key, $0.value) }
    }

    mutating func add(_ statement: PostgresStatement, _ read: @escaping Reader) {
        statements.append(statement)
        readers.append(read)
    }

    mutating func add(_ sql: String, _ parameters: [PostgresValue], _ read: @escaping Reader) {
        add(PostgresStatement(sql, parameters), read)
    }

    /// The records in the results of the statements.
    func records(_ answers: [PostgresRows]) throws -> LoadedRecords {
        var loaded = LoadedRecords()
        loaded.homes = homes
        for (answer, read) in zip(answers, readers) { try read(answer, &loaded) }
        loaded.addMentionedEvidence()
        return loaded
    }
}

/// A customer whose open chains in an environment are to be loaded, see `LedgerKey.openHoldings`.
struct OpenHolder {
    var id: CustomerID
    var environment: Environment
    var settled: SettledChains
}

/// The keys and dependencies of a ``ReadSet``, by kind of statement.
private struct Wanted {
    var chains: Set<ChainKey> = []
    var transactions: [TransactionKey] = []
    var ids: Set<CustomerID> = []
    /// The subset of ``ids`` whose customers are loaded together with their chains.
    var holders: Set<CustomerID> = []
    /// The environments of the chains to load for the holders. The chains of every holder are loaded in all of these
    /// environments, so that a single statement per app suffices.
    var environments: Set<Environment> = []
    /// The subset of ``ids`` whose customers are loaded together with their open chains.
    var open: [OpenHolder] = []
    /// Customers to load by number, with all of their ids.
    var customers: [Customer] = []
    var holdings: [Customer: Set<Environment>] = [:]
    var names: Set<Provenance> = []
    var wordings: Set<WordingKey> = []
    var contents: Set<Provenance> = []
    var parts: Set<PartName> = []
    var evidence: Set<ChainKey> = []
    var locations: [DocumentLocation] = []
    var records: [RecordKey] = []

    init(_ readSet: ReadSet) {
        for key in readSet.keys { add(key) }
        for dependency in readSet.dependencies {
            switch dependency {
            case .holdings(let customer, let environment): holdings[customer, default: []].insert(environment)
            case .part(let part): parts.insert(part)
            case .location(let location): locations.append(location)
            }
        }
    }

    private mutating func add(_ key: LedgerKey) {
        switch key {
        case .chain(let key): chains.insert(key)
        case .transaction(let key): transactions.append(key)
        case .customerID(let id): ids.insert(id)
        case .customer(let customer): customers.append(customer)
        case .holdings(let id, let environment):
            ids.insert(id)
            holders.insert(id)
            environments.insert(environment)
        case .openHoldings(let id, let environment, let settled):
            ids.insert(id)
            open.append(OpenHolder(id: id, environment: environment, settled: settled))
        case .document(let name): names.insert(name)
        case .content(let name): contents.insert(name)
        case .wording(let key): wordings.insert(key)
        case .evidence(let key):
            chains.insert(key)
            evidence.insert(key)
        case .record(let key): records.append(key)
        case .events, .marks: break
        }
    }
}

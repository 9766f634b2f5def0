// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// The statements of one load, and how to read their answers. The files in `Rows` add to it.
struct LoadPlan {
    typealias Reader = (_ rows: PostgresRows, _ loaded: inout LoadedRecords) throws -> Void

    let scopes: ScopeNumbers
    /// The homes of documents, as far as they are known, if Citus distributes the tables; otherwise `nil`.
    let homes: [Provenance: String]?
    private(set) var statements: [PostgresStatement] = []
    private var readers: [Reader] = []

    /// Whether records of one kind share a statement. On several nodes they do not, and customers are not loaded
    /// together with their chains.
    var shares: Bool { homes == nil }

    /// - Parameters:
    ///   - new: Documents not to look up.
    ///   - homes: The homes of documents, if Citus distributes the tables.
    init(
        _ footprint: Footprint, except new: Set<Provenance> = [], _ scopes: ScopeNumbers,
        homes: [Provenance: String]?
    ) {
        (self.scopes, self.homes) = (scopes, homes)
        let (chains, names) = (together(footprint.chains, \.scope), Array(footprint.names.subtracting(new)))
        if shares, let (scope, keys) = chains.first, chains.count == 1, !names.isEmpty {
            load(keys, in: scope, lookingUp: names)
        } else {
            for (scope, keys) in chains { load(keys, in: scope) }
            look(up: names)
        }
        load(footprint.wordings)
        for key in footprint.transactions { load(key) }
        let holders = shares ? footprint.holders : []
        for (app, ids) in together(holders, \.bundleId) { loadHolders(ids, of: app, in: footprint.environments) }
        for customer in footprint.holdings { loadHoldings(of: customer, in: footprint.environments) }
        let others = footprint.customers.subtracting(holders)
        for (app, ids) in together(others, \.bundleId) { load(ids, of: app) }
        for customer in footprint.numbers { load(customer) }
        if shares {
            load(footprint.documents)
            load(footprint.parts)
            loadEvidence(for: footprint.evidence)
        } else {
            for name in footprint.documents { load(name) }
            for part in footprint.parts { load(part) }
            for key in footprint.evidence { loadEvidenceAtHome(for: key) }
        }
        for place in footprint.places { load(place) }
        for key in footprint.records { load(key) }
    }

    /// The keys that share a statement.
    private func together<Key, Place: Hashable>(_ keys: Set<Key>, _ place: (Key) -> Place) -> [(Place, [Key])] {
        guard shares, keys.count > 1 else { return keys.map { (place($0), [$0]) } }
        return Dictionary(grouping: keys, by: place).map { ($0.key, $0.value) }
    }

    mutating func add(_ statement: PostgresStatement, _ read: @escaping Reader) {
        statements.append(statement)
        readers.append(read)
    }

    mutating func add(_ sql: String, _ parameters: [PostgresValue], _ read: @escaping Reader) {
        add(PostgresStatement(sql, parameters), read)
    }

    /// Adds a statement about one or several keys. They are in a subquery, so that the planner does not see how many
    /// there are: for fewer than its estimate it would plan the statement anew each time, which takes longer than to
    /// run it.
    ///
    /// - Parameters:
    ///   - sql: The text up to the column with the keys.
    ///   - parameters: Its parameters besides.
    mutating func add(
        _ sql: String, _ keys: [String], _ parameters: [PostgresValue], _ read: @escaping Reader
    ) {
        let place = "$\(parameters.count + 1)"
        if keys.count == 1 {
            add("\(sql) = \(place)", parameters + keys.map { .text($0) }, read)
        } else {
            add("\(sql) = ANY((SELECT \(place)::text[])::text[])", parameters + [.texts(keys)], read)
        }
    }

    /// The records in the answers to the statements.
    func records(_ answers: [PostgresRows]) throws -> LoadedRecords {
        var loaded = LoadedRecords()
        loaded.homes = homes
        for (answer, read) in zip(answers, readers) { try read(answer, &loaded) }
        loaded.addMentionedEvidence()
        return loaded
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Loads and commits holdings: the chains (purchases) that each customer ever owned. A holding stays when a chain
// changes its owner. The present owners are in the chain's record.

extension LoadPlan {
    private static let holderOfOne = holders("= $3")
    private static let holdersOfSome = holders("= ANY((SELECT $3::text[])::text[])")
    private static let openHolderOfOne = holders("= $3", besides: isSettled)
    private static let openHoldersOfSome = holders("= ANY((SELECT $3::text[])::text[])", besides: isSettled)

    /// The condition of ``PurchaseLedger/SettledChains``; NULL stands for false.
    private static let isSettled = """
        (settled_at <= $4 AND settled_by = $5
            AND ($6::bigint = 0 OR status <> 'stale' AND coalesce(next_change > $4, true)))
        """

    /// Selects a row for each requested id of a customer, and a row for each chain that these customers ever owned in
    /// the requested environments. `OFFSET 0` keeps the planner from scanning all chains.
    ///
    /// - Parameter settled: The condition of the chains to leave out. Those with unknown products have a row without a
    ///   state for each present owner, with these products in the place of the name.
    private static func holders(_ homes: String, besides settled: String = "false") -> String {
        let owners = "array_append(string_to_array(other_owners, ' ')::bigint[], owner)"
        return """
            SELECT home, version, number, is_established, consented_at, ids, grants, NULL::text, NULL::bytea
            FROM quittance.customers WHERE app = $1 AND home \(homes)
            UNION ALL
            SELECT found.home, found.version, holder.number, false, NULL, NULL, NULL, environment, found.state
            FROM (SELECT DISTINCT number FROM quittance.customers WHERE app = $1 AND home \(homes)) AS holder
            JOIN quittance.scopes ON scopes.app = $1 AND environment = ANY((SELECT $2::text[])::text[]),
            LATERAL (SELECT chain FROM quittance.holdings
                     WHERE holdings.home = holder.number::text AND holdings.scope = scopes.id OFFSET 0) AS held,
            LATERAL (SELECT CASE WHEN \(settled) THEN unknown_products COLLATE "C" ELSE home END AS home, version,
                         CASE WHEN \(settled) THEN NULL ELSE state END AS state FROM quittance.chains
                     WHERE chains.home = held.chain AND chains.scope = scopes.id
                         AND (\(settled) IS NOT TRUE
                             OR unknown_products IS NOT NULL AND holder.number = ANY (\(owners)))
                     OFFSET 0) AS found
            """
    }

    /// Loads customers, and their chains that are not settled. The chains are those of all the environments and of the
    /// earliest instant.
    mutating func loadHolders(_ open: [OpenHolder], of bundleId: String) {
        guard var settled = open.map(\.settled).min(by: { $0.at < $1.at }) else { return }
        settled.keepsStale = open.contains(where: \.settled.keepsStale)
        let environments = Set(open.map(\.environment))
        // Only ledgers with different catalogues, which share a storage, ask for different chains at once.
        guard open.allSatisfy({ $0.settled.catalogue == settled.catalogue }) else {
            return loadHolders(Array(Set(open.map(\.id))), of: bundleId, in: environments)
        }
        let ids = Set(open.map(\.id)).map(\.id)
        let bounds = [settled.at.parameter, settled.catalogue.parameter, settled.keepsStale.parameter]
        loadHolders(
            ids.count == 1 ? Self.openHolderOfOne : Self.openHoldersOfSome, ids, of: bundleId, in: environments, bounds,
            besides: settled)
    }

    /// Loads customers, and every chain that they ever owned in some environments. Some of these chains may now belong
    /// to other customers.
    ///
    /// - Parameters:
    ///   - ids: The customers' ids, all of the same app.
    ///   - environments: The environments of the chains.
    mutating func loadHolders(_ ids: [CustomerID], of bundleId: String, in environments: Set<Environment>) {
        let sql = ids.count == 1 ? Self.holderOfOne : Self.holdersOfSome
        loadHolders(sql, ids.map(\.id), of: bundleId, in: environments, [])
    }

    private mutating func loadHolders(
        _ sql: String, _ ids: [String], of bundleId: String, in environments: Set<Environment>,
        _ bounds: [PostgresValue], besides settled: SettledChains? = nil
    ) {
        let first: [PostgresValue] = [.integer(scopes.app(bundleId)), .environments(environments)]
        add(sql, first + [ids.count == 1 ? .text(ids[0]) : .texts(ids)] + bounds) { rows, loaded in
            _ = try rows.map { row in
                guard let chain = try row.heldChain(bundleId, besides: settled) else {
                    let (id, customer) = try row.customer(bundleId)
                    loaded.customers[id] = customer
                    loaded.holdings[customer.record.customer, default: []].formUnion([])
                    return
                }
                guard let stored = chain.stored else {
                    let unknown = TextList(.text(chain.key.name))?.texts ?? []
                    loaded.unknownProducts[chain.customer, default: [:]][chain.key.scope.environment, default: []]
                        .formUnion(unknown)
                    return
                }
                loaded.holdings[chain.customer, default: []].insert(chain.key)
                loaded.chains[chain.key] = stored
            }
        }
    }

    static let holdings = """
        SELECT environment, chain FROM quittance.holdings JOIN quittance.scopes ON scopes.id = scope
        WHERE home = $1 AND environment = ANY($2::text[])
        """

    /// Finds the keys of all chains that a customer ever owned in some environments.
    mutating func loadHoldings(of customer: Customer, in environments: Set<Environment>) {
        add(Self.holdings, [.text("\(customer.number)"), .environments(environments)]) { rows, loaded in
            loaded.holdings[customer] = Set(try rows.map { try $0.holding(customer.bundleId) })
        }
    }
}

extension PostgresValue {
    static func environments(_ environments: Set<Environment>) -> PostgresValue {
        .texts(environments.map(\.rawValue).sorted())
    }
}

extension PostgresRow {
    /// Reads the environment and the name of a chain.
    mutating func holding(_ bundleId: String) throws -> ChainKey {
        let scope = LedgerScope(bundleId: bundleId, environment: try next())
        return ChainKey(try next(), in: scope)
    }

    /// The chain in the row, with a present or former owner; `nil` if the row is a customer's own row. The row of a
    /// settled chain has no state, and its unknown products as its name.
    fileprivate func heldChain(
        _ bundleId: String, besides settled: SettledChains?
    ) throws -> (customer: Customer, key: ChainKey, stored: Versioned<ChainRecord>?)? {
        var row = self
        let name = try row.next(String.self)
        let version = try row.next(Int64.self)
        let number = try row.next(Int64.self)
        _ = (try row.next(Bool.self), try row.next(Int64?.self))
        // In this column a customer's own row has the customer's ids, and the row of a chain has NULL.
        guard row.isNextNull else { return nil }
        _ = row.nextStored()
        _ = row.nextStored()
        let key = ChainKey(name, in: LedgerScope(bundleId: bundleId, environment: try row.next()))
        let state = try row.next([UInt8]?.self)
        let stored = try state.map {
            Versioned(version: version, record: try ChainCoding.decode($0, key, besides: settled))
        }
        return (Customer(number: number, bundleId: bundleId), key, stored)
    }
}

extension CommitPlan {
    private static let insert = RowStatement.insert(
        into: "quittance.holdings", [("home", .text), ("scope", .integer), ("chain", .text)], "ON CONFLICT DO NOTHING")

    /// Adds holdings, and deletes the holdings of erased customers.
    ///
    /// - Parameter after: The loaded records, with the changes of the commit applied.
    mutating func putHoldings(_ after: LoadedRecords) {
        let gained = loaded.holdings(gainedBy: after)
        for (customer, keys) in gained.sorted(by: { $0.key.number < $1.key.number }) {
            for key in keys.sorted() {
                add(Self.insert, [.text("\(customer.number)"), .integer(scopes.scope(key.scope)), .text(key.name)])
            }
        }
        let left = Set(after.customers.values.map(\.record.customer.number))
        let numbers = Set(loaded.customers.values.map(\.record.customer.number))
        for number in numbers.subtracting(left).sorted() {
            add("DELETE FROM quittance.holdings WHERE home = $1", [.text("\(number)")])
        }
    }
}

extension PostgresLedgerStorage {
    /// SQL for each pair of a chain and an owner for which no holding exists. No commit removes an owner's holding, so
    /// such a pair exists only after damage, or after somebody has changed the tables with `psql`.
    private static let missing = """
        FROM quittance.chains,
        LATERAL unnest(array_append(string_to_array(other_owners, ' ')::bigint[], owner)) AS owners (number)
        WHERE owner IS NOT NULL
            AND EXISTS (SELECT 1 FROM quittance.customers WHERE customers.number = owners.number)
            AND NOT EXISTS (
                SELECT 1 FROM quittance.holdings
                WHERE holdings.home = owners.number::text AND holdings.scope = chains.scope
                    AND holdings.chain = chains.home)
        """

    /// SQL for the holdings of erased customers.
    private static let orphans = """
        FROM quittance.holdings
        WHERE NOT EXISTS (SELECT 1 FROM quittance.customers WHERE customers.number::text = holdings.home)
        """

    /// The maximum number of faults of each kind in the result of ``faults()``: missing holdings, and holdings of
    /// erased customers.
    private static let maxFaults = 100

    /// The faults of the holdings, a sentence each: chains missing among their owner's holdings, and holdings of erased
    /// customers. At most 100 faults of each kind are reported, and none on Citus, where this method does not search.
    public func faults() async throws -> [String] {
        guard !isDistributed else { return [] }
        let missing = try await sentences("chains.home, owners.number::text \(Self.missing)") { purchase, customer in
            "The purchase \(purchase) is missing among the purchases of its owner, customer number \(customer): "
                + "quittance rebuild adds the purchase"
        }
        let orphans = try await sentences("chain, home \(Self.orphans)") { purchase, customer in
            "The purchase \(purchase) is still among the purchases of the erased customer number \(customer): "
                + "quittance rebuild removes the purchase"
        }
        return missing + orphans
    }

    private func sentences(
        _ search: String, _ sentence: @Sendable (_ purchase: String, _ customer: String) -> String
    ) async throws -> [String] {
        let statement = PostgresStatement.once("SELECT \(search) LIMIT \(Self.maxFaults)")
        return try await translated {
            try await self.long([statement]).last?.map { sentence(try $0.next(), try $0.next()) } ?? []
        }
    }

    /// Adds missing holdings, and deletes the holdings of erased customers. Commits may run at the same time: none of
    /// them removes an owner's holding, and only the undoing of a merge reuses a number, with its holdings. On Citus
    /// the method does nothing.
    public func mend() async throws {
        guard !isDistributed else { return }
        let insert = PostgresStatement.once(
            """
            INSERT INTO quittance.holdings (home, scope, chain)
            SELECT owners.number::text, chains.scope, chains.home \(Self.missing) ON CONFLICT DO NOTHING
            """)
        let remove = PostgresStatement.once("DELETE \(Self.orphans)")
        try await translated { for statement in [insert, remove] { _ = try await self.long([statement]) } }
    }
}

extension LoadedRecords {
    /// The loaded holdings as they will be after some changes.
    func holdings(after changes: LedgerChanges) -> [Customer: Set<ChainKey>] {
        var holdings = holdings
        for record in changes.chains {
            for owner in newOwners(of: record) { holdings[owner, default: []].insert(record.key) }
        }
        for customer in changes.erasedCustomers { holdings[customer] = nil }
        return holdings
    }

    /// The holdings gained by each customer: those in `after`, the records after some changes, but not in these
    /// records. Customers without a new holding are left out.
    func holdings(gainedBy after: LoadedRecords) -> [Customer: Set<ChainKey>] {
        let gained = after.holdings.map { ($0, $1.subtracting(holdings[$0] ?? [])) }
        return Dictionary(uniqueKeysWithValues: gained.filter { !$0.1.isEmpty })
    }
}

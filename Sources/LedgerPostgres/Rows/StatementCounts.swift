// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
public import PurchaseLedger

// Estimates the number of `TransactionStatement` values in chains (purchases) from the length of the column `state`,
// which has the record of a chain. PostgreSQL knows the length without reading the state.

extension PostgresLedgerStorage {
    /// The assumed size of a transaction statement in bytes. A genuine statement takes some 250 bytes in a state, and
    /// half as many without its optional members. The estimate assumes the smaller size, so it is rather too high than
    /// too low.
    private static let statementBytes: Int64 = 128

    private static let chainsOfTransaction = "SELECT chain FROM quittance.transactions WHERE scope = $1 AND home"
    private static let chainsOfCustomer = """
        SELECT environment, chain FROM quittance.customers
        JOIN quittance.holdings ON holdings.home = customers.number::text
        JOIN quittance.scopes ON scopes.id = scope AND environment = ANY($2::text[])
        WHERE customers.app = $1 AND customers.home
        """
    private static let numberOfCustomer = "SELECT number FROM quittance.customers WHERE app = $1 AND home"
    private static let size =
        "SELECT coalesce(sum(octet_length(state)), 0)::bigint FROM quittance.chains WHERE scope = $1 AND home"

    /// The approximate number of transaction statements in chains, see `LedgerStorage`.
    public func statementCount(_ query: LedgerQuery) async throws -> Int {
        try await translated {
            try await self.inOneEpoch { epoch in
                let keys = try await self.chains(of: query, in: epoch)
                let scopes = try await self.scopeNumbers([], Set(keys.map(\.scope)), in: epoch)
                let sizes = Dictionary(grouping: keys, by: \.scope).flatMap { scope, keys in
                    self.statements(Self.size, keys.map(\.name), [.integer(scopes.scope(scope))])
                }
                let rows = try await self.requests.read(sizes, during: epoch)
                let size = try rows.flatMap { try $0.map { try $0.next(Int64.self) } }.reduce(0, +)
                return Int(size / Self.statementBytes)
            }
        }
    }

    /// The chains to load for a query: the chains named in the query, the chains of its transactions, and the chains
    /// ever owned by its customers. If a named chain was migrated to a different chain, this successor is included. To
    /// find the successor, no state is read, because the table `transactions` leads from the original transaction,
    /// whose id is the old chain's name, to the transaction's present chain.
    private func chains(of query: LedgerQuery, in epoch: Int) async throws -> Set<ChainKey> {
        var chains: Set<ChainKey> = []
        var ids: Set<TransactionKey> = []
        var customers: Set<CustomerID> = []
        var environments: Set<Environment> = []
        for key in query.keys {
            switch key {
            case .chain(let key):
                chains.insert(key)
                ids.insert(TransactionKey(key.name, in: key.scope))
            case .transaction(let key): ids.insert(key)
            case .holdings(let id, let environment):
                customers.insert(id)
                environments.insert(environment)
            default: break
            }
        }
        let scopes = try await scopeNumbers(Set(customers.map(\.bundleId)), Set(ids.map(\.scope)), in: epoch)
        var statements: [PostgresStatement] = []
        var readers: [(inout PostgresRow) throws -> [ChainKey]] = []
        for (scope, ids) in Dictionary(grouping: ids, by: \.scope) {
            let number = PostgresValue.integer(scopes.scope(scope))
            let lookups = self.statements(Self.chainsOfTransaction, ids.map(\.transactionId), [number])
            statements += lookups
            readers += lookups.map { _ in { [ChainKey(try $0.next(), in: scope)] } }
        }
        for (bundleId, ids) in Dictionary(grouping: customers, by: \.bundleId) {
            let app = PostgresValue.integer(scopes.app(bundleId))
            let lookups = try await holdings(ids.map(\.id), app, .environments(environments), in: epoch)
            statements += lookups
            readers += lookups.map { _ in { [try $0.holding(bundleId)] } }
        }
        let answers = try await requests.read(statements, during: epoch)
        let found = try zip(answers, readers).flatMap { rows, read in try rows.map(read).flatMap(\.self) }
        return chains.union(found)
    }

    /// SQL statements that find the chains ever owned by customers of an app. On Citus the customers' numbers are
    /// looked up first.
    private func holdings(
        _ ids: [String], _ app: PostgresValue, _ environments: PostgresValue, in epoch: Int
    ) async throws -> [PostgresStatement] {
        guard isDistributed else { return statements(Self.chainsOfCustomer, ids, [app, environments]) }
        let answers = try await requests.read(statements(Self.numberOfCustomer, ids, [app]), during: epoch)
        let numbers = Set(try answers.flatMap { try $0.map { try $0.next(Int64.self) } })
        return numbers.sorted().map { PostgresStatement(LoadPlan.holdings, [.text("\($0)"), environments]) }
    }

    /// SQL statements about keys of a single scope or app. On Citus each key has its own SQL statement, because only a
    /// statement about a single key is fast there.
    private func statements(_ sql: String, _ keys: [String], _ parameters: [PostgresValue]) -> [PostgresStatement] {
        let groups = isDistributed ? keys.map { [$0] } : [keys]
        return groups.map { PostgresStatement(sql, $0, parameters) }
    }
}

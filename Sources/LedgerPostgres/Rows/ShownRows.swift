// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// What the views for people show, where a version without it has written the records.

extension PostgresLedgerStorage {
    /// How often to read chains again if commits come in between.
    private static let mostRaces = 10

    /// How many chains are read at once.
    private static let shownPage = 100

    /// Writes the columns that views show, where they are missing or differ, and holdings that are missing; see
    /// `LedgerStorage`. Citus has no views.
    public func completeViews() async throws {
        guard !isDistributed else { return }
        var cursor: ScanCursor?
        repeat {
            let page = try await chains(.all, after: cursor, limit: Self.shownPage)
            for (scope, keys) in Dictionary(grouping: page.items, by: \.scope) {
                try await translated { try await self.complete(keys.map(\.name), in: scope) }
            }
            cursor = page.next
        } while cursor != nil
        try await completeHoldings()
    }

    private func complete(_ chains: [String], in scope: LedgerScope) async throws {
        var races = 0
        while true {
            do {
                return try await inOneEpoch { epoch in
                    let number = try await self.scopeNumbers([], [scope], in: epoch).scope(scope)
                    let shown = try ShownRows(
                        try await self.requests.read(ShownRows.statements(chains, number), during: epoch), in: scope)
                    // Each chain in a transaction of its own, so that no two wait for each other in a circle.
                    for statements in try shown.corrections(scope: number) {
                        try await self.requests.send(.transaction(statements).during(epoch))
                    }
                }
            } catch let failure as PostgresFailure where failure.isConflict && races < Self.mostRaces {
                races += 1
            }
        }
    }
}

/// What the rows of chains and of their transactions show, beside their records.
private struct ShownRows {
    private var chains: [(key: ChainKey, stored: StoredChain, values: [PostgresValue])]
    /// The columns of a transaction, by its chain and id.
    private var transactions: [String: [String: [PostgresValue]]] = [:]

    private static let chainColumns = PeopleViews.chainColumns.map(\.name).joined(separator: ", ")
    private static let periodColumns = PeopleViews.transactionColumns.map(\.name).joined(separator: ", ")

    static func statements(_ chains: [String], _ scope: Int64) -> [PostgresStatement] {
        [
            """
            SELECT home, version, state, owner, \(chainColumns) FROM quittance.chains
            WHERE scope = $1 AND home = ANY ((SELECT $2::text[])::text[])
            """,
            """
            SELECT chain, home, \(periodColumns) FROM quittance.transactions
            WHERE scope = $1 AND chain = ANY ((SELECT $2::text[])::text[])
            """,
        ].map { PostgresStatement($0, [.integer(scope), .texts(chains)]) }
    }

    init(_ answers: [PostgresRows], in scope: LedgerScope) throws {
        chains = try answers[0].map { row in
            let (key, stored) = try row.chain(in: scope)
            return (key, stored, row.rest())
        }
        let rows = try answers[1].map { row in
            (chain: try row.next(String.self), id: try row.next(String.self), values: row.rest())
        }
        for row in rows { transactions[row.chain, default: [:]][row.id] = row.values }
    }

    private static let correct = """
        UPDATE quittance.chains SET owner = $3, \
        \(PeopleViews.chainColumns.enumerated().map { "\($1.name) = $\($0 + 4)" }.joined(separator: ", "))
        WHERE home = $1 AND scope = $2
        """

    /// The statements for each chain that is shown otherwise than its record says. They fail if the chain was changed
    /// meanwhile.
    func corrections(scope: Int64) throws -> [[PostgresStatement]] {
        chains.compactMap { key, stored, values in
            let name: [PostgresValue] = [.text(key.name), .integer(scope)]
            let (record, known) = (stored.record, transactions[key.name] ?? [:])
            let missing = record.chain.transactions.keys.sorted().compactMap { id -> [PostgresValue]? in
                guard let statement = record.chain.transactions[id].flatMap(record.chain.current) else { return nil }
                let columns = statement.periodValues
                return known[id] == columns ? nil : [.text(id)] + [name[1], name[0]] + columns
            }
            guard values != record.shownValues || !missing.isEmpty else { return nil }
            return [
                PostgresStatement(CommitPlan.checkChain, name + [.integer(stored.version)]),
                PostgresStatement(Self.correct, name + record.shownValues),
            ] + CommitPlan.putTransaction.statements(missing, shares: true)
        }
    }
}

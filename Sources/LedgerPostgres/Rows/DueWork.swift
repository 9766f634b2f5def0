// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
public import PurchaseLedger

// Finds the due records of some lanes, and whether any chain (a purchase) is due, in a single statement, or on Citus in
// two. A lane consists of all records of the same kind and owner.

extension PostgresLedgerStorage {
    /// The due records of the lanes, and whether a chain is due, see `LedgerStorage`.
    public func due(in lanes: [RecordLane], at now: Timestamp, limit: Int) async throws -> DueWork {
        let apps = Set(lanes.compactMap(\.owner.bundleId))
        return try await translated {
            try await self.inOneEpoch { epoch in
                let numbers = try await self.scopeNumbers(apps, Set(lanes.compactMap(\.owner.scope)), in: epoch)
                guard self.isDistributed else {
                    let statement = DueSearch.statement(lanes, numbers, at: now, limit: limit)
                    return try DueSearch.found(
                        try await self.requests.read([statement], during: epoch), lanes, limit)
                }
                // Each statement is a request of its own. A request with both statements would also need `BEGIN` and
                // `COMMIT`, and the answers need not be from the same state of the database.
                var answers: [PostgresRows] = []
                for statement in DueSearch.statementsOnNodes(lanes, numbers, at: now, limit: limit) {
                    answers.append(try await self.requests.read(statement))
                }
                return try DueSearch.found(answers, lanes, limit)
            }
        }
    }
}

/// The search for due work. Each row has the position of a lane, counted from 1, and the due time and the name of a
/// record. A row with the position 0 stands for a due chain.
private enum DueSearch {
    /// Each lane takes a look-up in an index. If no record of the whole table is due, the condition `EXISTS` saves
    /// these look-ups.
    private static let oneNode = """
        (SELECT position, due_at, name
        FROM unnest((SELECT $1::text[]), (SELECT $2::bigint[])) WITH ORDINALITY AS lanes (kind, owner, position)
        CROSS JOIN LATERAL (
            SELECT due_at, name FROM quittance.records
            WHERE records.kind = lanes.kind AND records.owner = lanes.owner AND due_at <= $3
            ORDER BY due_at LIMIT $4) AS found
        WHERE EXISTS (SELECT 1 FROM quittance.records WHERE due_at <= $3))
        UNION ALL
        (SELECT 0, next_change, '' FROM quittance.chains WHERE next_change <= $3 ORDER BY next_change LIMIT 1)
        """

    static func statement(
        _ lanes: [RecordLane], _ scopes: ScopeNumbers, at now: Timestamp, limit: Int
    ) -> PostgresStatement {
        PostgresStatement(
            oneNode,
            [
                .texts(lanes.map(\.kind.rawValue)), .list(.integer, lanes.map { .integer(scopes.owner($0.owner)) }),
                now.parameter, limit.parameter,
            ])
    }

    /// Citus runs no lateral join across nodes. On Citus a single search therefore covers all lanes, with a common
    /// limit.
    private static let records = """
        SELECT array_position($1::text[], kind || ' ' || owner::text), due_at, name FROM quittance.records
        WHERE due_at <= $2 AND kind || ' ' || owner::text = ANY ($1::text[]) ORDER BY due_at LIMIT $3
        """

    /// The maximum number of records to request from Citus at once. The row of each record takes about a hundred bytes.
    private static let maxOnNodes = 2000

    private static let chains = """
        SELECT 0, next_change, ''::text FROM quittance.chains WHERE next_change <= $1 ORDER BY next_change LIMIT 1
        """

    static func statementsOnNodes(
        _ lanes: [RecordLane], _ scopes: ScopeNumbers, at now: Timestamp, limit: Int
    ) -> [PostgresStatement] {
        let names = lanes.map { "\($0.kind.rawValue) \(scopes.owner($0.owner))" }
        let product = limit.multipliedReportingOverflow(by: lanes.count)
        let most = product.overflow ? Self.maxOnNodes : min(Self.maxOnNodes, product.partialValue)
        return [
            PostgresStatement(records, [.texts(names), now.parameter, max(0, most).parameter]),
            PostgresStatement(chains, [now.parameter]),
        ]
    }

    static func found(_ answers: [PostgresRows], _ lanes: [RecordLane], _ limit: Int) throws -> DueWork {
        let rows = try answers.flatMap { rows in try rows.map { try Row(&$0) } }
        var work = DueWork(hasDueChains: rows.contains { $0.position == 0 })
        for (position, rows) in Dictionary(grouping: rows, by: \.position)
        where lanes.indices.contains(position - 1) {
            let lane = lanes[position - 1]
            work.records += rows.sorted { $0.dueAt < $1.dueAt }.prefix(limit).map {
                RecordKey(lane.kind, $0.name, of: lane.owner)
            }
        }
        return work
    }

    private struct Row {
        let position: Int
        let dueAt: Timestamp
        let name: String

        init(_ row: inout PostgresRow) throws {
            position = try row.next()
            dueAt = try row.next()
            name = try row.next()
        }
    }
}

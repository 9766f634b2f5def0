// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Chains (purchases with their renewals): their rows, their owners, and the times at which the owners changed.

// MARK: - Loading

extension SQLiteLedgerSession {
    private static let columns = ColumnNames.names(ChainRecord.self)

    private static let columnList = columns.joined(separator: ", ")

    /// The owners are one text of pairs `number reason`, separated by commas, so that a chain needs no second query.
    private static let chainColumns = """
        chains.id, \(columnList), nextChange, publishedAsOf,
        (SELECT times FROM ownerChanges WHERE chain = chains.id),
        (SELECT group_concat(customer || ' ' || reason) FROM (
            SELECT customer, reason FROM links WHERE chain = chains.id ORDER BY place))
        """

    private static let chainByKey =
        "SELECT \(chainColumns) FROM chains WHERE originalTransactionId = ? AND scope = ?"

    private static let chainsByOwner = """
        SELECT originalTransactionId, \(chainColumns) FROM links AS own JOIN chains ON chains.id = own.chain
        WHERE own.customer = ?1 AND scope = ?2
        """

    /// The condition of ``PurchaseLedger/SettledChains``; null stands for false.
    private static let isSettled = """
        settledAt <= ?3 AND settledBy = ?4 AND (?5 = 0 OR publishedStatus <> 'stale' AND coalesce(nextChange > ?3, 1))
        """

    /// The open chains, and those of the settled chains that have unknown products.
    private static let openChainsByOwner = """
        SELECT (\(isSettled)) IS TRUE AS isOver, originalTransactionId, \(chainColumns)
        FROM links AS own JOIN chains ON chains.id = own.chain
        WHERE own.customer = ?1 AND scope = ?2 AND (NOT isOver OR unknownProducts IS NOT NULL)
        """

    /// A chain; `nil` if the chain is not stored. Reads the row unless the present decision has already loaded the
    /// chain.
    func storedChain(_ key: ChainKey) throws -> StoredChain? {
        if let chain = chains[key] { return chain }
        guard let scope = try scope(key.scope) else { return nil }
        let row = try first(Self.chainByKey, [.text(key.name), .integer(scope)]) {
            try StoredChain(&$0, key)
        }
        let chain = try row.map { try withFacts($0) }
        chains[key] = .some(chain)
        return chain
    }

    func chain(_ key: ChainKey) throws -> ChainRecord? { try storedChain(key)?.record }

    func chains(of customer: Customer, in environment: Environment) throws -> [ChainRecord] {
        let scope = LedgerScope(bundleId: customer.bundleId, environment: environment)
        guard let number = try self.scope(scope) else { return [] }
        let parameters: [StoredValue] = [.integer(customer.number), .integer(number)]
        return try all(Self.chainsByOwner, parameters) { try Self.chain(&$0, in: scope) }.map(kept)
    }

    func openChains(
        of customer: Customer, in environment: Environment, besides settled: SettledChains
    ) throws -> ([ChainRecord], unknownProducts: Set<String>) {
        let scope = LedgerScope(bundleId: customer.bundleId, environment: environment)
        guard let number = try self.scope(scope) else { return ([], []) }
        let parameters: [StoredValue] = [
            .integer(customer.number), .integer(number), settled.at.stored, settled.catalogue.stored,
            settled.keepsStale.stored,
        ]
        let rows = try all(Self.openChainsByOwner, parameters) { row in
            (isOver: try row.next(Bool.self), chain: try Self.chain(&row, in: scope))
        }
        let unknown = rows.lazy.filter(\.isOver).compactMap(\.chain.record.settlement?.unknownProducts).joined()
        // Not kept, because a later question of the session may need the past periods.
        let open = try rows.filter { !$0.isOver }.map { row in
            try withFacts(row.chain, row.chain.record.neededPeriods(settled)).record
        }
        return (open, Set(unknown))
    }

    private static func chain(_ row: inout RowReader, in scope: LedgerScope) throws -> StoredChain {
        let key = ChainKey(try row.next(), in: scope)
        return try StoredChain(&row, key)
    }

    /// The record of a chain, with its facts, kept for later questions of the session.
    private func kept(_ row: StoredChain) throws -> ChainRecord {
        let chain = try withFacts(row)
        chains[chain.record.key] = chain
        return chain.record
    }

    private func withFacts(_ row: StoredChain, _ needed: NeededPeriods? = nil) throws -> StoredChain {
        var chain = row
        try addFacts(to: &chain.record.chain, chain.number, needed)
        // The facts are those of the settlement, which adding them has ended.
        chain.record.settlement = row.record.settlement
        return chain
    }

    /// The chains of a transaction. The partial index has no statement about the first transaction of a chain, which is
    /// found by the name of the chain.
    private static let chainsOfTransaction = """
        SELECT originalTransactionId FROM statements JOIN chains ON chains.id = statements.chain
        WHERE transactionId = ?1 AND scope = ?2 AND NOT isOriginal
        UNION
        SELECT originalTransactionId FROM chains JOIN statements ON chains.id = statements.chain
        WHERE originalTransactionId = ?1 AND scope = ?2 AND isOriginal
        UNION
        SELECT originalTransactionId FROM residue JOIN chains ON chains.id = residue.chain
        WHERE transactionId = ?1 AND scope = ?2
        """

    func chains(of transaction: TransactionKey) throws -> [ChainKey] {
        guard let scope = try scope(transaction.scope) else { return [] }
        return try all(Self.chainsOfTransaction, [.text(transaction.transactionId), .integer(scope)]) {
            ChainKey(try $0.next(), in: transaction.scope)
        }
    }

    /// Outer joins, because a chain must be found, and reported as damage, even if its scope (the row of its app and
    /// environment) is missing, for example after a manual edit.
    private static let keys = """
        SELECT chains.id, bundleId, environment, originalTransactionId
        FROM chains LEFT JOIN scopes ON scopes.id = scope LEFT JOIN apps ON apps.id = app
        """

    func chains(_ selection: ChainSelection, after cursor: ScanCursor?, limit: Int) throws -> ScanPage<ChainKey> {
        switch selection {
        case .all:
            try TableScan.page(after: cursor, limit: limit) { try chains("chains.id > ? ORDER BY chains.id", $0, $1) }
        case .due(let now): try firstChains("nextChange <= ?", now, orderedBy: "nextChange", limit)
        case .ahead(let instant):
            try firstChains(
                "publishedAsOf > ?", instant, orderedBy: "publishedAsOf DESC, originalTransactionId", limit)
        }
    }

    /// Leaves out rows without a scope. They could never be processed, so they would fill the first page forever. A
    /// check of the ledger reports them.
    private func firstChains(
        _ condition: String, _ instant: Timestamp, orderedBy order: String, _ limit: Int
    ) throws -> ScanPage<ChainKey> {
        let rows = "\(condition) AND scopes.id IS NOT NULL ORDER BY \(order)"
        return ScanPage(items: try chains(rows, instant.milliseconds, max(0, limit)).map(\.item), next: nil)
    }

    private func chains(_ rows: String, _ first: Int64, _ limit: Int) throws -> [TableScan<ChainKey>.Row] {
        try all("\(Self.keys) WHERE \(rows) LIMIT ?", [.integer(first), limit.stored]) { try $0.numberedKey() }
    }
}

extension RowReader {
    /// Reads the number of a chain's row and its key.
    fileprivate mutating func numberedKey() throws -> TableScan<ChainKey>.Row {
        let number = try next(Int64.self)
        let scope = try scope()
        return (number, ChainKey(try next(), in: scope))
    }
}

// MARK: - Writing

extension SQLiteLedgerSession {
    private static let addChain = """
        INSERT INTO chains (\(columnList), nextChange, publishedAsOf, originalTransactionId, scope)
        VALUES (\(placeholders(columns.count + 4)))
        """

    /// Leaves out `nextChange` and `publishedAsOf`, because SQLite rewrites the index entries of all named columns,
    /// even if the values stay the same.
    private static let updateChain = """
        UPDATE chains SET (\(columnList)) = (\(placeholders(columns.count))) WHERE id = ?
        """

    private static let updateChainWithInstants = """
        UPDATE chains SET (\(columnList), nextChange, publishedAsOf) = (\(placeholders(columns.count + 2))) WHERE id = ?
        """

    /// Writes a chain. Only the rows and facts that differ from the loaded record are written.
    func put(_ record: ChainRecord) throws {
        let (old, number) = try putRow(record)
        try put(record.chain.transactions, old: old.chain.transactions, of: record.key, number, in: .statements)
        try put(record.chain.residue, old: old.chain.residue, of: record.key, number, in: .residue)
        if record.owners != old.owners { try put(record.owners, of: number, old: old.owners) }
        if record.ownerChanges != old.ownerChanges { try put(ownerChanges: record.ownerChanges, of: number) }
        chains[record.key] = StoredChain(number: number, record: record)
    }

    /// The number of a chain's row. A missing row is added.
    func chainNumber(_ key: ChainKey) throws -> Int64 {
        if let chain = try storedChain(key) { return chain.number }
        try put(ChainRecord(key))
        return try storedChain(key)?.number ?? 0
    }

    private func putRow(_ record: ChainRecord) throws -> (old: ChainRecord, number: Int64) {
        let fields = try ColumnWriter.columns(of: record)
        let instants = [(record.report?.nextChange).stored, (record.report?.asOf).stored]
        guard let stored = try storedChain(record.key) else {
            let key = [.text(record.key.name), StoredValue.integer(try addedScope(record.key.scope))]
            return (ChainRecord(record.key), try insert(Self.addChain, fields + instants + key))
        }
        let old = stored.record
        let number = StoredValue.integer(stored.number)
        if record.report?.nextChange != old.report?.nextChange || record.report?.asOf != old.report?.asOf {
            try run(Self.updateChainWithInstants, fields + instants + [number])
        } else if try fields != ColumnWriter.columns(of: old) {
            try run(Self.updateChain, fields + [number])
        }
        return (old, stored.number)
    }

    /// Replaces the owners of a chain. SQLite numbers the new rows in `place`, so `place` preserves the order of the
    /// owners.
    private func put(_ owners: [ChainRecord.Owner], of chain: Int64, old: [ChainRecord.Owner]) throws {
        if !old.isEmpty { try run("DELETE FROM links WHERE chain = ?", [.integer(chain)]) }
        for owner in owners {
            try run(
                "INSERT INTO links (chain, customer, reason) VALUES (?, ?, ?)",
                [.integer(chain), .integer(owner.customer.number), owner.reason.stored])
        }
    }

    private func put(ownerChanges times: [Timestamp], of chain: Int64) throws {
        guard !times.isEmpty else { return try run("DELETE FROM ownerChanges WHERE chain = ?", [.integer(chain)]) }
        try run(
            "INSERT OR REPLACE INTO ownerChanges (chain, times) VALUES (?, ?)",
            [.integer(chain), TimestampList(times).stored])
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Loads, commits and finds chains, and finds the chains of transactions. A chain is a purchase with all its
// transactions, for example a subscription with its renewals. Its row in the database is found by its name (the column
// `home`) and its scope, which is an app in an environment.

extension LoadPlan {
    /// - Parameter keys: The keys of chains, all in the given scope.
    mutating func load(_ keys: [ChainKey], in scope: LedgerScope) {
        let statement = PostgresStatement(
            "SELECT home, version, state FROM quittance.chains WHERE scope = $1 AND home", keys.map(\.name),
            [.integer(scopes.scope(scope))])
        add(statement) { rows, loaded in
            _ = try rows.map { row in
                let key = ChainKey(try row.next(), in: scope)
                loaded.chains[key] = try row.chain(key)
            }
        }
    }

    /// Finds the chains that are listed for a transaction in the table `transactions`. Their records are loaded later.
    mutating func load(_ key: TransactionKey) {
        add(
            "SELECT chain FROM quittance.transactions WHERE home = $1 AND scope = $2",
            [.text(key.transactionId), .integer(scopes.scope(key.scope))]
        ) { rows, loaded in
            loaded.candidates[key] = Set(try rows.map { ChainKey(try $0.next(), in: key.scope) })
        }
    }
}

extension PostgresRow {
    /// The version and state of a chain.
    mutating func chain(_ key: ChainKey) throws -> Versioned<ChainRecord> {
        let version = try next(Int64.self)
        return Versioned(version: version, record: try ChainCoding.decode(try next(), key))
    }
}

extension CommitPlan {
    /// The columns of a chain's ``PurchaseLedger/Settlement``.
    static let settlementColumns: [(name: String, type: ColumnType)] = [
        ("settled_at", .integer), ("settled_by", .integer), ("unknown_products", .text),
    ]

    private static let furtherColumns = settlementColumns + PeopleViews.chainColumns

    /// Adds or replaces the row of a chain. The new version is the loaded version plus 1. The statement raises a
    /// ``Conflict`` if the row does not have the loaded version.
    private static let put = RowStatement.insert(
        into: "quittance.chains AS c",
        [
            ("home", .text), ("scope", .integer), ("version", .integer), ("next_change", .integer),
            ("published_as_of", .integer), ("state", .bytes), ("owner", .integer),
        ] + furtherColumns,
        """
        ON CONFLICT (home, scope) DO UPDATE SET
            version = CASE WHEN c.version = excluded.version - 1 THEN excluded.version
                ELSE quittance.conflict(c.version) END,
            next_change = excluded.next_change, published_as_of = excluded.published_as_of, owner = excluded.owner,
            \(furtherColumns.map { "\($0.name) = excluded.\($0.name)" }.joined(separator: ", ")),
            state = excluded.state
        """)

    /// Adds or replaces the row that leads from a transaction to its chain. The row also has the columns of
    /// ``PeopleViews``, which only people read.
    private static let putTransaction = {
        let names = PeopleViews.transactionColumns.map(\.name)
        return RowStatement.insert(
            into: "quittance.transactions",
            [("home", .text), ("scope", .integer), ("chain", .text)] + PeopleViews.transactionColumns,
            """
            ON CONFLICT (home, scope, chain) DO UPDATE SET
                \(names.map { "\($0) = excluded.\($0)" }.joined(separator: ", "))
            """)
    }()

    private static let checkChain = """
        SELECT CASE WHEN version <> $3 THEN quittance.conflict(version) END
        FROM quittance.chains WHERE home = $1 AND scope = $2 FOR SHARE
        """

    private static let reserve =
        "INSERT INTO quittance.chains (home, scope, version, state) VALUES ($1, $2, 0, ''::bytea)"
    private static let release = "DELETE FROM quittance.chains WHERE home = $1 AND scope = $2"

    /// - Parameters:
    ///   - changed: The changed records. If a chain has several, the last one is stored.
    ///   - writeSet: The chains whose version is incremented.
    ///   - readSet: The chains that the decision depends on.
    mutating func putChains(_ changed: [ChainRecord], writeSet: Set<ChainKey>, readSet: Set<ChainKey>) throws {
        let records = Dictionary(changed.map { ($0.key, $0) }) { $1 }
        for key in writeSet.union(readSet).sorted() {
            let old = loaded.chains[key]
            let name = scopes.key(key)
            if writeSet.contains(key) {
                let new = records[key] ?? old?.record ?? ChainRecord(key)
                let instants = [(new.report?.nextChange).parameter, (new.report?.asOf).parameter]
                let state = PostgresValue.bytes(try ChainCoding.encode(new))
                add(Self.put, name + [.integer((old?.version ?? 0) + 1)] + instants + [state] + new.shownValues)
            } else if let old {
                add(Self.checkChain, name + [.integer(old.version)])
            } else {
                // The chain was not found when the records were loaded, and must still not exist. Inserting and
                // deleting its key proves this, because the insertion fails if a concurrent commit has added the chain.
                add(Self.reserve, name)
                add(Self.release, name)
            }
        }
        for record in records.values { putTransactions(of: record, loaded.chains[record.key]?.record) }
    }

    private mutating func putTransactions(of record: ChainRecord, _ old: ChainRecord?) {
        let new = record.chain
        let old = old?.chain ?? Chain(record.key)
        let scope = scopes.scope(record.key.scope)
        let chain = record.key.name
        for id in new.changes(since: old).sorted() {
            let known = new.transactions[id].flatMap(new.current) ?? new.residue[id]?.current
            guard let statement = known else { continue }
            // The views show a transaction in the chain in which it counts, and no residue.
            let values = statement.periodValues
            let shown = new.counts(id) ? values : values.map { _ in .null }
            add(Self.putTransaction, [.text(id), .integer(scope), .text(chain)] + shown)
        }
        let known = [old.transactions, old.residue].lazy.flatMap(\.keys)
        for id in known.filter({ new.transactions[$0] == nil && new.residue[$0] == nil }).sorted() {
            add(
                "DELETE FROM quittance.transactions WHERE home = $1 AND scope = $2 AND chain = $3",
                [.text(id), .integer(scope), .text(chain)])
        }
    }
}

extension Chain {
    /// The ids of the transactions whose rows may have changed: new transactions, and transactions with a different
    /// signed statement or receipt. If ``PurchaseLedger/Chain/residue`` (the facts kept after an erasure) has changed,
    /// all transactions are included, because any of them may be revoked now. All are included after a migration too.
    fileprivate func changes(since old: Chain) -> [String] {
        guard residue == old.residue, predecessors == old.predecessors else {
            return Array(Set(transactions.keys).union(residue.keys))
        }
        let facts = transactions.values
        let oldFacts = old.transactions.values
        return transactions.indices.filter { index in
            guard let oldIndex = old.transactions.index(forKey: transactions.keys[index]) else { return true }
            return facts[index].signed?.provenance != oldFacts[oldIndex].signed?.provenance
                || facts[index].receipt?.provenance != oldFacts[oldIndex].receipt?.provenance
        }.map { transactions.keys[$0] }
    }
}

extension ChainRecord {
    /// The number of the first owner, followed by the values of ``CommitPlan/settlementColumns`` and
    /// ``PeopleViews/chainColumns``.
    fileprivate var shownValues: [PostgresValue] {
        let others = owners.dropFirst().map { "\($0.customer.number)" }.joined(separator: " ")
        return [
            (owners.first?.customer.number).parameter, (settlement?.at).parameter, (settlement?.catalogue).parameter,
            (settlement.map { TextList($0.unknownProducts) }).parameter, (report?.isSubscription).parameter,
            (report?.state.status).parameter, (report?.state.productId).parameter, (report?.state.until).parameter,
            (report?.state.willRenew).parameter, (report?.isEntitling).parameter,
            others.isEmpty ? .null : .text(others),
        ]
    }
}

extension TransactionStatement {
    /// The values of ``PeopleViews/transactionColumns``.
    fileprivate var periodValues: [PostgresValue] {
        [
            .text(productId), type.parameter, purchaseDate.parameter, expiresDate.parameter, quantity.parameter,
            offerType.parameter, isUpgraded.parameter, (revocation?.date).parameter, price.parameter,
            currency.parameter,
        ]
    }
}

/// Searches for chains.
enum ChainSearch {
    private static let keys = """
        SELECT home, bundle_id, environment, scope
        FROM quittance.chains JOIN quittance.scopes ON scopes.id = scope JOIN quittance.apps ON apps.id = app
        """

    static func statement(_ selection: ChainSelection, after cursor: ScanCursor?, limit: Int) -> PostgresStatement {
        switch selection {
        case .all: scan(after: cursor, limit: max(1, limit))
        // Chains due at the same instant come in any order. To order them, each search would have to sort all of them,
        // and any number of chains may be due at the same instant.
        case .due(let now):
            PostgresStatement(
                keys + " WHERE next_change <= $1 ORDER BY next_change LIMIT $2",
                [now.parameter, max(0, limit).parameter])
        // Chains with an equal `published_as_of` are sorted by name and scope. Their reports were made at the same
        // millisecond, and a commit makes the reports of a few hundred chains at most. There are therefore few such
        // chains, and sorting them takes little time.
        case .ahead(let instant):
            PostgresStatement(
                keys + " WHERE published_as_of > $1 ORDER BY published_as_of DESC, home, scope LIMIT $2",
                [instant.parameter, max(0, limit).parameter])
        }
    }

    /// The chains after a cursor. The cursor is the last chain of the previous page: the number of its scope, a space,
    /// and its name.
    private static func scan(after cursor: ScanCursor?, limit: Int) -> PostgresStatement {
        let words = (cursor?.rawValue ?? "").split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
        let start = words.count == 2 ? (String(words[1]), Int64(words[0]) ?? 0) : ("", -1)
        return PostgresStatement(
            keys + " WHERE (home, scope) > ($1, $2) ORDER BY home, scope LIMIT $3",
            [.text(start.0), .integer(start.1), limit.parameter])
    }

    static func found(_ rows: PostgresRows) throws -> [(key: ChainKey, cursor: ScanCursor)] {
        try rows.map { row in
            let id = try row.next(String.self)
            let key = ChainKey(id, in: try row.scope())
            return (key, ScanCursor(rawValue: "\(try row.next(Int64.self)) \(id)"))
        }
    }
}

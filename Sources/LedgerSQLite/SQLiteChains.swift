// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// A chain as it is stored.
struct StoredChain {
    let number: Int64
    var record: ChainRecord

    /// `nil` if there is a row only since documents refer to it.
    var recordIfAny: ChainRecord? { record == ChainRecord(record.key) ? nil : record }
}

// MARK: - Loading

extension SQLiteLedgerSession {
    /// All columns of a chain but for the next change, by which it is indexed.
    private static let contents = """
        erasedAt, lastEventAt, successor, predecessors, renewalSignedDate, renewalEvidence, renewalProductId, autoRenewProductId, autoRenewStatus,
        expirationIntent, isInBillingRetry, gracePeriodExpiresDate, priceIncreaseStatus, renewalAppAccountToken,
        renewalDate, publishedStatus, publishedProductId, publishedUntil, publishedWillRenew, publishedIsSubscription,
        publishedTransactionId, publishedExpiresDate, publishedRevoked, publishedEntitling
        """

    /// With the owners as `number reason`, separated by commas: a statement less for each chain.
    private static let chainColumns = """
        chains.id, \(contents), nextChange,
        (SELECT times FROM ownerChanges WHERE chain = chains.id),
        (SELECT group_concat(customer || ' ' || reason) FROM (
            SELECT customer, reason FROM links WHERE chain = chains.id ORDER BY place))
        """

    private static let chainByKey =
        "SELECT \(chainColumns) FROM chains WHERE originalTransactionId = ? AND scope = ?"

    private static let chainsByOwner = """
        SELECT originalTransactionId, \(chainColumns) FROM links AS own JOIN chains ON chains.id = own.chain
        WHERE own.customer = ? AND scope = ?
        """

    /// A chain that was loaded, or is now.
    func storedChain(_ key: ChainKey) throws -> StoredChain? {
        if let known = chains[key] { return known }
        guard let scope = try scope(key.scope) else { return nil }
        let row = try first(Self.chainByKey, [.text(key.originalTransactionId), .integer(scope)]) {
            try StoredChain(&$0, key)
        }
        let chain = try row.map(withStatements)
        chains[key] = .some(chain)
        return chain
    }

    func records(ownedBy customer: Customer, in environment: Environment) throws -> [ChainRecord] {
        let scope = LedgerScope(bundleId: customer.bundleId, environment: environment)
        guard let number = try self.scope(scope) else { return [] }
        let rows = try all(Self.chainsByOwner, [.integer(customer.number), .integer(number)]) { row in
            let key = ChainKey(try row.text(), in: scope)
            return try StoredChain(&row, key)
        }
        return try rows.map { row in
            let chain = try withStatements(row)
            chains[chain.record.key] = chain
            return chain.record
        }
    }

    private func withStatements(_ row: StoredChain) throws -> StoredChain {
        var chain = row
        let key = row.record.key
        let statements = try all(Self.statements, [.integer(row.number)]) {
            (
                isResidue: try $0.flag(),
                statement: try TransactionStatement(&$0, originalTransactionId: key.originalTransactionId)
            )
        }
        for (isResidue, statement) in statements {
            if isResidue { chain.record.chain.mergeResidue(statement) } else { chain.record.chain.merge(statement) }
        }
        return chain
    }

    /// Two chains may name one transaction, as when a subscription was migrated: that of the newest document counts.
    private static let chainOfTransaction = """
        SELECT originalTransactionId FROM (
            SELECT originalTransactionId, signedDate, evidence FROM statements JOIN chains ON chains.id = statements.chain
            WHERE transactionId = ?1 AND scope = ?2 AND NOT isOriginal
            UNION ALL
            SELECT originalTransactionId, signedDate, evidence FROM chains JOIN statements ON chains.id = statements.chain
            WHERE originalTransactionId = ?1 AND scope = ?2 AND isOriginal)
        ORDER BY signedDate DESC, evidence DESC, originalTransactionId DESC LIMIT 1
        """

    func chain(of transaction: TransactionKey) throws -> ChainKey? {
        guard let scope = try scope(transaction.scope) else { return nil }
        return try first(Self.chainOfTransaction, [.text(transaction.transactionId), .integer(scope)]) {
            ChainKey(try $0.text(), in: transaction.scope)
        }
    }

    func dueChains(at now: Timestamp, limit: Int) throws -> [ChainKey] {
        let found = try all(
            // A row that refers to no scope, as after an edit by hand, stops no other; a check names it.
            """
            SELECT scope, originalTransactionId FROM chains JOIN scopes ON scopes.id = chains.scope
            WHERE nextChange <= ? ORDER BY nextChange LIMIT ?
            """,
            [.time(now), .number(max(0, limit))]
        ) { (scope: try $0.integer(), id: try $0.text()) }
        return try found.map { ChainKey($0.id, in: try scope(numbered: $0.scope)) }
    }

    func scanChains(after cursor: ScanCursor?, limit: Int) throws -> ScanPage<ChainKey> {
        try ScanWalk<ChainKey> { number, limit in
            let rows = try self.all(
                "SELECT id, scope, originalTransactionId FROM chains WHERE id > ? ORDER BY id LIMIT ?",
                [.integer(number), .number(limit)]
            ) { (number: try $0.integer(), scope: try $0.integer(), id: try $0.text()) }
            return try rows.map { ($0.number, ChainKey($0.id, in: try self.scope(numbered: $0.scope))) }
        } numbers: { number, limit in
            try self.all(
                "SELECT id FROM chains WHERE id > ? ORDER BY id LIMIT ?", [.integer(number), .number(limit)]
            ) { try $0.integer() }
        }.page(after: cursor, limit: limit)
    }
}

// MARK: - Writing

extension SQLiteLedgerSession {
    private static let addChain = """
        INSERT INTO chains (\(contents), nextChange, originalTransactionId, scope)
        VALUES (\(places(27)))
        """

    static func places(_ count: Int) -> String { Array(repeating: "?", count: count).joined(separator: ", ") }

    /// Two, since SQLite writes the index of what is due again even if its column stays the same.
    private static let updateChain = """
        UPDATE chains SET (\(contents)) = (\(places(24))) WHERE id = ?
        """

    private static let updateChainWithDue = """
        UPDATE chains SET (\(contents), nextChange) = (\(places(25))) WHERE id = ?
        """

    /// Writes what differs from the record that was loaded.
    func put(_ record: ChainRecord) throws {
        let (old, number) = try putRow(record)
        try put(record.chain.transactions, old: old.chain.transactions, of: record.key, number, in: .statements)
        try put(record.chain.residue, old: old.chain.residue, of: record.key, number, in: .residue)
        if record.owners != old.owners { try put(record.owners, of: number, old: old.owners) }
        if record.ownerChanges != old.ownerChanges { try put(ownerChanges: record.ownerChanges, of: number) }
        chains[record.key] = StoredChain(number: number, record: record)
    }

    /// The number of a chain's row, which is added if there is none.
    func chainNumber(_ key: ChainKey) throws -> Int64 {
        if let chain = try storedChain(key) { return chain.number }
        try put(ChainRecord(key))
        return try storedChain(key)?.number ?? 0
    }

    private func putRow(_ record: ChainRecord) throws -> (old: ChainRecord, number: Int64) {
        let due = Binding.time(record.report?.nextChange)
        guard let stored = try storedChain(record.key) else {
            let key = [Binding.text(record.key.originalTransactionId), .integer(try addedScope(record.key.scope))]
            return (ChainRecord(record.key), try insert(Self.addChain, record.bindings + [due] + key))
        }
        let (old, number) = (stored.record, Binding.integer(stored.number))
        if record.report?.nextChange != old.report?.nextChange {
            try run(Self.updateChainWithDue, record.bindings + [due, number])
        } else if record.bindings != old.bindings {
            try run(Self.updateChain, record.bindings + [number])
        }
        return (old, stored.number)
    }

    /// `place` is the order in which they became owners.
    private func put(_ owners: [ChainRecord.Owner], of chain: Int64, old: [ChainRecord.Owner]) throws {
        var left = old.filter { owner in owners.contains { $0.customer == owner.customer } }
        if !owners.map(\.customer).starts(with: left.map(\.customer)) { left = [] }
        for owner in old where !left.contains(owner) {
            try run(
                "DELETE FROM links WHERE chain = ? AND customer = ?",
                [.integer(chain), .integer(owner.customer.number)])
        }
        for (owner, known) in zip(owners, left) where owner.reason != known.reason {
            try run(
                "UPDATE links SET reason = ? WHERE chain = ? AND customer = ?",
                [.text(owner.reason.rawValue), .integer(chain), .integer(owner.customer.number)])
        }
        for owner in owners.dropFirst(left.count) {
            try run(
                "INSERT INTO links (chain, customer, reason) VALUES (?, ?, ?)",
                [.integer(chain), .integer(owner.customer.number), .text(owner.reason.rawValue)])
        }
    }

    private func put(ownerChanges times: [Timestamp], of chain: Int64) throws {
        guard !times.isEmpty else { return try run("DELETE FROM ownerChanges WHERE chain = ?", [.integer(chain)]) }
        try run(
            "INSERT OR REPLACE INTO ownerChanges (chain, times) VALUES (?, ?)",
            [.integer(chain), .text(JSONValue.array(times.map(\.json)).compactText)])
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import GRDB
import PurchaseLedger

// MARK: - Chains

extension SQLiteTransaction {
    func chain(_ key: ChainKey) throws -> Chain? {
        guard let row = try tables.chain(key) else { return nil }
        let statements = try statements(row, key)
        guard !statements.isEmpty || row.renewal != nil else { return nil }
        var chain = Chain(key)
        for statement in statements { chain.merge(statement) }
        if let renewal = row.renewal { chain.merge(renewal) }
        return chain
    }

    private func statements(_ chain: ChainRow, _ key: ChainKey) throws -> [TransactionStatement] {
        guard chain.mayHaveStatements else { return [] }
        return try tables.all(Self.statements, [.integer(chain.number)]) {
            try TransactionStatement(&$0, originalTransactionId: key.originalTransactionId)
        }
    }

    func chainKey(of transaction: TransactionKey) throws -> ChainKey? {
        guard let scope = try tables.scope(transaction.scope) else { return nil }
        // Two chains may name one transaction, as when a subscription was migrated: what was signed last holds.
        return try tables.first(Self.chainOfTransaction, [.text(transaction.transactionId), .integer(scope)]) {
            ChainKey(try $0.text(), in: transaction.scope)
        }
    }

    private static let chainOfTransaction = """
        SELECT originalTransactionId FROM (
            SELECT originalTransactionId, signedDate, evidence FROM statements JOIN chains ON chains.id = statements.chain
            WHERE transactionId = ?1 AND scope = ?2 AND NOT isOriginal
            UNION ALL
            SELECT originalTransactionId, signedDate, evidence FROM chains JOIN statements ON chains.id = statements.chain
            WHERE originalTransactionId = ?1 AND scope = ?2 AND isOriginal)
        ORDER BY signedDate DESC, evidence DESC LIMIT 1
        """

    func chainKeys(after number: Int64, limit: Int) throws -> [(number: Int64, key: ChainKey)] {
        try tables.writeChains()
        let found = try tables.all(
            """
            SELECT id, scope, originalTransactionId FROM chains
            WHERE id > ? AND (renewalSignedDate IS NOT NULL OR EXISTS (SELECT 1 FROM statements WHERE chain = id))
            ORDER BY id LIMIT ?
            """, [.integer(number), .number(max(0, limit))]
        ) { (try $0.integer(), try $0.integer(), try $0.text()) }
        return try found.map { ($0, ChainKey($2, in: try tables.scope(numbered: $1))) }
    }

    func removeFacts(of key: ChainKey) throws {
        guard let chain = try tables.chain(key) else { return }
        try tables.run("DELETE FROM statements WHERE chain = ?", [.integer(chain.number)])
        chain.renewal = nil
    }
}

// MARK: - Statements

extension SQLiteTransaction {
    private static let statementColumns = """
        signedDate, evidence, productId, type, subscriptionGroup, purchaseDate, expiresDate,
        quantity, isUpgraded, revocationDate, revocationReason, revocationType, revocationPercentage, ownership,
        appAccountToken, offerType, webOrderLineItemId, transactionReason
        """

    fileprivate static let statements =
        "SELECT transactionId, source, \(statementColumns), knownSince FROM statements WHERE chain = ?"

    /// The order of ``Provenance``: by date, then by the document's name. Of an older document only its date counts.
    private static let putStatement = """
        INSERT INTO statements (chain, transactionId, source, isOriginal, \(statementColumns), knownSince)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT DO UPDATE SET (\(statementColumns), knownSince) = (
            excluded.signedDate, excluded.evidence, excluded.productId, excluded.type, excluded.subscriptionGroup,
            excluded.purchaseDate, excluded.expiresDate, excluded.quantity, excluded.isUpgraded,
            excluded.revocationDate, excluded.revocationReason, excluded.revocationType,
            excluded.revocationPercentage, excluded.ownership, excluded.appAccountToken, excluded.offerType,
            excluded.webOrderLineItemId, excluded.transactionReason,
            min(coalesce(knownSince, excluded.knownSince), coalesce(excluded.knownSince, knownSince)))
        WHERE (excluded.signedDate, excluded.evidence) >= (signedDate, evidence)
        """

    private static let putKnownSince = """
        UPDATE statements SET knownSince = ?1
        WHERE chain = ?2 AND transactionId = ?3 AND source = ?4 AND (knownSince > ?1 OR knownSince IS NULL)
        """

    func put(_ statement: TransactionStatement, in key: ChainKey) throws {
        let (taken, provenance) = (statement.revocation, statement.provenance)
        let chain = try tables.addedChain(key)
        chain.mayHaveStatements = true
        let (id, source) = (Argument.text(statement.transactionId), Argument.number(statement.source.rawValue))
        try tables.run(
            Self.putStatement,
            [
                .integer(chain.number), id, source,
                .flag(statement.transactionId.utf8.elementsEqual(key.originalTransactionId.utf8)),
                .time(provenance.signedDate),
                .octets(provenance.evidence.octets),
                .text(statement.productId), .text(statement.type?.rawValue), .text(statement.subscriptionGroup),
                .time(statement.purchaseDate), .time(statement.expiresDate), .number(statement.quantity),
                .flag(statement.isUpgraded), .time(taken?.date), .number(taken?.reason?.rawValue),
                .text(taken?.type?.rawValue), .number(taken?.percentage), .text(statement.ownership?.rawValue),
                .text(statement.appAccountToken), .number(statement.offerType?.rawValue),
                .text(statement.webOrderLineItemId), .text(statement.transactionReason?.rawValue),
                .time(statement.knownSince),
            ])
        guard tables.changedNothing, let date = statement.knownSince else { return }
        try tables.run(Self.putKnownSince, [.time(date), .integer(chain.number), id, source])
    }
}

extension TransactionStatement {
    fileprivate init(_ columns: inout Columns, originalTransactionId: String) throws {
        let transactionId = try columns.text()
        guard let source = Source(rawValue: try columns.number()) else {
            throw SQLiteErrors.damaged("The ledger names a kind of document that there is not")
        }
        self.init(
            source: source, provenance: try columns.provenance(), transactionId: transactionId,
            originalTransactionId: originalTransactionId, productId: try columns.text())
        type = try columns.textIfAny().map(Open.init)
        subscriptionGroup = try columns.textIfAny()
        purchaseDate = try columns.timeIfAny()
        expiresDate = try columns.timeIfAny()
        quantity = try columns.number()
        isUpgraded = try columns.flag()
        revocation = try Revocation(&columns)
        ownership = try columns.textIfAny().map(Open.init)
        appAccountToken = try columns.textIfAny()
        offerType = try columns.numberIfAny().map(Open.init)
        webOrderLineItemId = try columns.textIfAny()
        transactionReason = try columns.textIfAny().map(Open.init)
        knownSince = try columns.timeIfAny()
    }
}

extension TransactionStatement.Revocation {
    fileprivate init?(_ columns: inout Columns) throws {
        let date = try columns.timeIfAny()
        let reason = try columns.numberIfAny()
        let type = try columns.textIfAny()
        let percentage = try columns.numberIfAny()
        guard let date else { return nil }
        self.init(date: date, reason: reason.map(Open.init), type: type.map(Open.init), percentage: percentage)
    }
}

// MARK: - Renewals and reports

extension SQLiteTransaction {
    func put(_ renewal: RenewalFact, in key: ChainKey) throws {
        let chain = try tables.addedChain(key)
        chain.renewal = chain.renewal?.merged(with: renewal) ?? renewal
    }

    func report(_ key: ChainKey) throws -> ChainReport? { try tables.chain(key)?.report }

    func put(_ report: ChainReport, for key: ChainKey) throws { try tables.addedChain(key).report = report }

    func chainsDue(at now: Timestamp, limit: Int) throws -> [ChainKey] {
        try tables.writeChains()
        let found = try tables.all(
            """
            SELECT scope, originalTransactionId FROM chains WHERE nextChange <= ? ORDER BY nextChange LIMIT ?
            """, [.time(now), .number(max(0, limit))]
        ) { (try $0.integer(), try $0.text()) }
        return try found.map { scope, id in ChainKey(id, in: try tables.scope(numbered: scope)) }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import GRDB
import PurchaseLedger

// MARK: - Chains

extension SQLiteTransaction {
    func chain(_ key: ChainKey) throws -> Chain? {
        guard let number = try tables.chain(key, with: .facts) else { return nil }
        let statements = try tables.all(Self.statements, [.integer(number)]) {
            try TransactionStatement(&$0, originalTransactionId: key.originalTransactionId)
        }
        let renewal = try tables.first(Self.renewal, [.integer(number)]) {
            try RenewalFact(&$0, originalTransactionId: key.originalTransactionId)
        }
        guard !statements.isEmpty || renewal != nil else { return nil }
        var chain = Chain(key)
        for statement in statements { chain.merge(statement) }
        if let renewal { chain.merge(renewal) }
        return chain
    }

    func chainKey(of transaction: TransactionKey) throws -> ChainKey? {
        guard let scope = try tables.scope(transaction.scope) else { return nil }
        // Two chains may name one transaction, as when a subscription was migrated: what was signed last holds.
        return try tables.first(
            """
            SELECT originalTransactionId FROM statements JOIN chains ON chains.id = statements.chain
            WHERE transactionId = ? AND scope = ? ORDER BY signedDate DESC, evidence DESC LIMIT 1
            """, [.text(transaction.transactionId), .integer(scope)]
        ) { ChainKey(try $0.text(), in: transaction.scope) }
    }

    func chainKeys(after number: Int64, limit: Int) throws -> [(number: Int64, key: ChainKey)] {
        let found = try tables.all(
            """
            SELECT id, scope, originalTransactionId FROM chains
            WHERE id > ? AND (EXISTS (SELECT 1 FROM statements WHERE chain = id)
                OR EXISTS (SELECT 1 FROM renewals WHERE chain = id))
            ORDER BY id LIMIT ?
            """, [.integer(number), .number(max(0, limit))]
        ) { (try $0.integer(), try $0.integer(), try $0.text()) }
        return try found.map { ($0, ChainKey($2, in: try tables.scope(numbered: $1))) }
    }

    func removeFacts(of key: ChainKey) throws {
        guard let chain = try tables.chain(key) else { return }
        for table in ["statements", "renewals"] {
            try tables.run("DELETE FROM \(table) WHERE chain = ?", [.integer(chain)])
        }
    }
}

// MARK: - Statements

extension SQLiteTransaction {
    private static let statementColumns = """
        transactionId, source, signedDate, evidence, productId, type, subscriptionGroup, purchaseDate, expiresDate,
        quantity, isUpgraded, revocationDate, revocationReason, revocationType, revocationPercentage, ownership,
        appAccountToken, offerType, webOrderLineItemId
        """

    fileprivate static let statements = "SELECT \(statementColumns) FROM statements WHERE chain = ?"

    /// The order of ``Provenance``: by date, then by the document's name.
    private static let putStatement = """
        INSERT INTO statements (chain, \(statementColumns))
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT DO UPDATE SET (\(statementColumns)) = (
            excluded.transactionId, excluded.source, excluded.signedDate, excluded.evidence, excluded.productId,
            excluded.type, excluded.subscriptionGroup, excluded.purchaseDate, excluded.expiresDate, excluded.quantity,
            excluded.isUpgraded, excluded.revocationDate, excluded.revocationReason, excluded.revocationType,
            excluded.revocationPercentage, excluded.ownership, excluded.appAccountToken, excluded.offerType,
            excluded.webOrderLineItemId)
        WHERE (excluded.signedDate, excluded.evidence) >= (signedDate, evidence)
        """

    func put(_ statement: TransactionStatement, in key: ChainKey) throws {
        let (taken, provenance) = (statement.revocation, statement.provenance)
        try tables.run(
            Self.putStatement,
            [
                .integer(try tables.addedChain(key, with: .facts)), .text(statement.transactionId),
                .number(statement.source.rawValue), .time(provenance.signedDate), .octets(provenance.evidence.octets),
                .text(statement.productId), .text(statement.type?.rawValue), .text(statement.subscriptionGroup),
                .time(statement.purchaseDate), .time(statement.expiresDate), .number(statement.quantity),
                .flag(statement.isUpgraded), .time(taken?.date), .number(taken?.reason?.rawValue),
                .text(taken?.type?.rawValue), .number(taken?.percentage), .text(statement.ownership?.rawValue),
                .text(statement.appAccountToken), .number(statement.offerType?.rawValue),
                .text(statement.webOrderLineItemId),
            ])
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

// MARK: - Renewals

extension SQLiteTransaction {
    private static let renewalColumns = """
        signedDate, evidence, productId, autoRenewProductId, willRenew, expirationIntent, isInBillingRetry,
        gracePeriodExpiresDate, priceIncreaseStatus, appAccountToken
        """

    fileprivate static let renewal = "SELECT \(renewalColumns) FROM renewals WHERE chain = ?"

    private static let putRenewal = """
        INSERT INTO renewals (chain, \(renewalColumns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT DO UPDATE SET (\(renewalColumns)) = (
            excluded.signedDate, excluded.evidence, excluded.productId, excluded.autoRenewProductId, excluded.willRenew,
            excluded.expirationIntent, excluded.isInBillingRetry, excluded.gracePeriodExpiresDate,
            excluded.priceIncreaseStatus, excluded.appAccountToken)
        WHERE (excluded.signedDate, excluded.evidence) >= (signedDate, evidence)
        """

    func put(_ renewal: RenewalFact, in key: ChainKey) throws {
        try tables.run(
            Self.putRenewal,
            [
                .integer(try tables.addedChain(key, with: .facts)), .time(renewal.provenance.signedDate),
                .octets(renewal.provenance.evidence.octets), .text(renewal.productId),
                .text(renewal.autoRenewProductId), .flag(renewal.willRenew),
                .number(renewal.expirationIntent?.rawValue), .flag(renewal.isInBillingRetry),
                .time(renewal.gracePeriodExpiresDate), .number(renewal.priceIncreaseStatus?.rawValue),
                .text(renewal.appAccountToken),
            ])
    }
}

extension RenewalFact {
    fileprivate init(_ columns: inout Columns, originalTransactionId: String) throws {
        self.init(provenance: try columns.provenance(), originalTransactionId: originalTransactionId)
        productId = try columns.textIfAny()
        autoRenewProductId = try columns.textIfAny()
        willRenew = try columns.flagIfAny()
        expirationIntent = try columns.numberIfAny().map(Open.init)
        isInBillingRetry = try columns.flag()
        gracePeriodExpiresDate = try columns.timeIfAny()
        priceIncreaseStatus = try columns.numberIfAny().map(Open.init)
        appAccountToken = try columns.textIfAny()
    }
}

// MARK: - Reports

extension SQLiteTransaction {
    func report(_ key: ChainKey) throws -> ChainReport? {
        guard let number = try tables.chain(key, with: .report) else { return nil }
        return try tables.first(
            """
            SELECT status, productId, transactionId, expiresDate, willRenew, revoked, isEntitling, nextChange
            FROM reports WHERE chain = ?
            """, [.integer(number)]
        ) { try ChainReport(&$0) }
    }

    func put(_ report: ChainReport, for key: ChainKey) throws {
        try tables.run(
            """
            INSERT OR REPLACE INTO reports
                (chain, status, productId, transactionId, expiresDate, willRenew, revoked, isEntitling, nextChange)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                .integer(try tables.addedChain(key, with: .report)), .text(report.status?.rawValue),
                .text(report.productId),
                .text(report.transactionId), .time(report.expiresDate), .flag(report.willRenew),
                .text(report.revokedList), .flag(report.isEntitling), .time(report.nextChange),
            ])
    }

    func chainsDue(at now: Timestamp, limit: Int) throws -> [ChainKey] {
        let found = try tables.all(
            """
            SELECT scope, originalTransactionId FROM reports JOIN chains ON chains.id = reports.chain
            WHERE nextChange <= ? ORDER BY nextChange LIMIT ?
            """, [.time(now), .number(max(0, limit))]
        ) { (try $0.integer(), try $0.text()) }
        return try found.map { scope, id in ChainKey(id, in: try tables.scope(numbered: scope)) }
    }
}

extension ChainReport {
    fileprivate init(_ columns: inout Columns) throws {
        self.init()
        status = try columns.wordIfAny()
        productId = try columns.textIfAny()
        transactionId = try columns.textIfAny()
        expiresDate = try columns.timeIfAny()
        willRenew = try columns.flagIfAny()
        revoked = try columns.textIfAny().map(Self.revoked) ?? []
        isEntitling = try columns.flag()
        nextChange = try columns.timeIfAny()
    }

    /// ``revoked`` as a JSON array, in order so that the same report is the same row; `nil` where it is empty, as it mostly is.
    fileprivate var revokedList: String? {
        revoked.isEmpty ? nil : JSONValue.array(revoked.sorted().map { .string($0) }).compactText
    }

    private static func revoked(_ list: String) throws -> Set<String> {
        guard let ids = try? JSONValue(parsing: list.utf8).array?.compactMap(\.string) else {
            throw SQLiteErrors.damaged("The ledger does not say what was taken back")
        }
        return Set(ids)
    }
}

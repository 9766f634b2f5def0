// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// What documents say about transactions: a row of `statements` for each, or of `residue` if the document was erased.

extension SQLiteLedgerSession {
    private static let statementColumns = """
        transactionId, source, signedDate, evidence, productId, type, subscriptionGroup, purchaseDate, expiresDate,
        quantity, isUpgraded, revocationDate, revocationReason, revocationType, revocationPercentage, ownership,
        appAccountToken, offerType, webOrderLineItemId, transactionReason, knownSince, price, currency
        """

    static let statements = """
        SELECT 0, \(statementColumns) FROM statements WHERE chain = ?1
        UNION ALL SELECT 1, \(statementColumns) FROM residue WHERE chain = ?1
        """

    /// Where statements are kept.
    enum StatementTable: String {
        case statements
        case residue
    }

    private static let putStatement = """
        INSERT OR REPLACE INTO statements (chain, isOriginal, \(statementColumns))
        VALUES (\(places(25)))
        """

    private static let putResidue = "INSERT OR REPLACE INTO residue (chain, \(statementColumns)) VALUES (\(places(24)))"

    func put(
        _ facts: [String: TransactionFact], old: [String: TransactionFact], of key: ChainKey, _ chain: Int64,
        in table: StatementTable
    ) throws {
        guard !facts.isEmpty || !old.isEmpty else { return }
        for (id, fact) in facts where fact != old[id] { try put(fact, old: old[id], of: key, chain, in: table) }
        for id in old.keys where facts[id] == nil {
            try run(
                "DELETE FROM \(table.rawValue) WHERE chain = ? AND transactionId = ?", [.integer(chain), .text(id)])
        }
    }

    private func put(
        _ fact: TransactionFact, old: TransactionFact?, of key: ChainKey, _ chain: Int64, in table: StatementTable
    ) throws {
        for (new, old) in [(fact.signed, old?.signed), (fact.receipt, old?.receipt)] where new != old {
            if let new {
                let isOriginal = new.transactionId.utf8.elementsEqual(key.originalTransactionId.utf8)
                switch table {
                case .statements: try run(Self.putStatement, [.integer(chain), .flag(isOriginal)] + new.bindings)
                case .residue: try run(Self.putResidue, [.integer(chain)] + new.bindings)
                }
            } else if let old {
                try run(
                    "DELETE FROM \(table.rawValue) WHERE chain = ? AND transactionId = ? AND source = ?",
                    [.integer(chain), .text(old.transactionId), .number(old.source.rawValue)])
            }
        }
    }
}

extension TransactionStatement {
    fileprivate var bindings: [Binding] {
        [
            .text(transactionId), .number(source.rawValue), .time(provenance.signedDate),
            .bytes(provenance.evidence.bytes), .text(productId), .text(type?.rawValue), .text(subscriptionGroup),
            .time(purchaseDate), .time(expiresDate), .number(quantity), .flag(isUpgraded), .time(revocation?.date),
            .number(revocation?.reason?.rawValue), .text(revocation?.type?.rawValue), .number(revocation?.percentage),
            .text(ownership?.rawValue), .text(appAccountToken), .number(offerType?.rawValue),
            .text(webOrderLineItemId), .text(transactionReason?.rawValue), .time(knownSince),
            .integer(price), .text(currency),
        ]
    }

    init(_ row: inout RowReader, originalTransactionId: String) throws {
        let transactionId = try row.text()
        guard let source = Source(rawValue: try row.number()) else {
            throw SQLiteErrors.damaged("The ledger names an unknown kind of document")
        }
        self.init(
            source: source, provenance: try row.provenance(), transactionId: transactionId,
            originalTransactionId: originalTransactionId, productId: try row.text())
        type = try row.textIfAny().map(Open.init)
        subscriptionGroup = try row.textIfAny()
        purchaseDate = try row.timeIfAny()
        expiresDate = try row.timeIfAny()
        quantity = try row.number()
        isUpgraded = try row.flag()
        revocation = try Revocation(&row)
        ownership = try row.textIfAny().map(Open.init)
        appAccountToken = try row.textIfAny()
        offerType = try row.numberIfAny().map(Open.init)
        webOrderLineItemId = try row.textIfAny()
        transactionReason = try row.textIfAny().map(Open.init)
        knownSince = try row.timeIfAny()
        price = try row.integerIfAny()
        currency = try row.textIfAny()
    }
}

extension TransactionStatement.Revocation {
    fileprivate init?(_ row: inout RowReader) throws {
        let date = try row.timeIfAny()
        let reason = try row.numberIfAny()
        let type = try row.textIfAny()
        let percentage = try row.numberIfAny()
        guard let date else { return nil }
        self.init(date: date, reason: reason.map(Open.init), type: type.map(Open.init), percentage: percentage)
    }
}

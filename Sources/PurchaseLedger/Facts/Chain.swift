// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The facts about one purchase: its transactions and, for a subscription, its newest renewal info.
public struct Chain: Hashable, Sendable {
    /// The app, environment and original transaction id.
    public let key: ChainKey
    // Compared first: nearly every notification changes it.
    /// The newest renewal info; `nil` if none has arrived.
    public private(set) var renewal: RenewalFact?
    /// By transaction id.
    public private(set) var transactions: [String: TransactionFact] = [:]
    /// The original transaction ids of the chains that were migrated to this one. Facts about them are facts about this
    /// chain.
    public var predecessors: Set<String> = []
    /// By transaction id, without names: facts whose documents were erased. Answers do not show them. If a document of
    /// the purchase is presented again, what they revoke stays revoked.
    public package(set) var residue: [String: TransactionFact] = [:]

    public init(_ key: ChainKey) {
        self.key = key
    }

    /// Merges a statement about one of its transactions. Statements about other chains are ignored.
    public mutating func merge(_ statement: TransactionStatement) {
        guard let statement = own(statement) else { return }
        let key = TransactionKey(statement.transactionId, in: key.scope)
        transactions[statement.transactionId, default: TransactionFact(key)].merge(statement)
    }

    /// Merges renewal info. That of other subscriptions is ignored.
    public mutating func merge(_ fact: RenewalFact) {
        guard isNamed(fact.originalTransactionId) else { return }
        var fact = fact
        fact.originalTransactionId = key.originalTransactionId
        renewal = renewal?.merged(with: fact) ?? fact
    }

    /// Merges a statement of a document that was erased, or that was signed before the chain was erased.
    package mutating func mergeResidue(_ statement: TransactionStatement) {
        guard let statement = own(statement) else { return }
        let key = TransactionKey(statement.transactionId, in: key.scope)
        residue[statement.transactionId, default: TransactionFact(key)].merge(statement.withoutNames)
    }

    /// Merges all facts of a chain that was migrated to this one.
    mutating func takeOver(_ old: Chain) {
        predecessors.formUnion(old.predecessors.union([old.key.originalTransactionId]))
        for statement in old.transactions.values.flatMap(\.statements) { merge(statement) }
        for statement in old.residue.values.flatMap(\.statements) { mergeResidue(statement) }
        if let renewal = old.renewal { merge(renewal) }
    }

    /// Whether documents that name `originalTransactionId` are about this chain.
    func isNamed(_ originalTransactionId: String) -> Bool {
        originalTransactionId == key.originalTransactionId || predecessors.contains(originalTransactionId)
    }

    /// A statement about this chain, under the chain's present id.
    private func own(_ statement: TransactionStatement) -> TransactionStatement? {
        guard isNamed(statement.originalTransactionId) else { return nil }
        var statement = statement
        statement.originalTransactionId = key.originalTransactionId
        return statement
    }
}

// MARK: - What is known

extension Chain {
    /// The present statement about one transaction.
    public func current(_ fact: TransactionFact) -> TransactionStatement? {
        guard var statement = fact.current else { return nil }
        guard !residue.isEmpty, let judged = judged(fact).current else { return statement }
        statement.revocation = judged.revocation
        statement.isUpgraded = judged.isUpgraded
        return statement
    }

    /// A fact together with the residue of its erased documents.
    private func judged(_ fact: TransactionFact) -> TransactionFact {
        guard var judged = residue[fact.key.transactionId] else { return fact }
        for statement in fact.statements { judged.merge(statement) }
        return judged
    }

    /// The present statements about all transactions, in no order.
    struct Statements {
        var all: [TransactionStatement] = []
        /// The ids of those that only a receipt calls cancelled.
        var cancelledByReceiptAlone: Set<String> = []
        /// The ids of those of which only residue is left.
        var erased: Set<String> = []
    }

    var statements: Statements {
        var statements = Statements()
        statements.all.reserveCapacity(transactions.count)
        let facts = transactions.values
        for index in facts.indices {
            if let statement = current(facts[index]) { statements.all.append(statement) }
            if facts[index].receipt == nil, residue.isEmpty { continue }
            if judged(facts[index]).isCancelledByReceiptAlone {
                statements.cancelledByReceiptAlone.insert(facts[index].key.transactionId)
            }
        }
        for (id, fact) in residue where transactions[id] == nil {
            guard let statement = fact.current else { continue }
            statements.all.append(statement)
            statements.erased.insert(id)
            if fact.isCancelledByReceiptAlone { statements.cancelledByReceiptAlone.insert(id) }
        }
        return statements
    }

    /// The account that the latest purchase with a token names, otherwise the renewal info's; `nil` if none does. An
    /// earlier period that is signed again, as for its refund, does not move the purchase. Receipts name no account.
    var account: CustomerID? {
        let facts = transactions.values
        var latest: (place: (Timestamp, Provenance), token: String)?
        for index in facts.indices {
            guard let token = facts[index].signed?.appAccountToken, let provenance = facts[index].signed?.provenance
            else { continue }
            let place = (facts[index].signed?.purchaseDate ?? .distantPast, provenance)
            if let latest, latest.place >= place { continue }
            latest = (place, token)
        }
        return (latest?.token ?? renewal?.appAccountToken).map { CustomerID($0, of: key.scope.bundleId) }
    }
}

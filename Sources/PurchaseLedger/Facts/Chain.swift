// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// All that is known of one purchase and what came of it: its transactions and, for a subscription, its newest renewal info.
public struct Chain: Hashable, Sendable {
    public let key: ChainKey
    /// The original transaction ids of the chains that were migrated to this one: what documents say of them is said of it.
    public var predecessors: Set<String> = []
    /// By transaction id.
    public private(set) var transactions: [String: TransactionFact] = [:]
    public private(set) var renewal: RenewalFact?
    /// By transaction id, without names: facts whose documents were erased. They show nothing, but what they take back stays taken
    /// back if a document of the purchase is presented again.
    public package(set) var residue: [String: TransactionFact] = [:]

    public init(_ key: ChainKey) {
        self.key = key
    }

    /// Takes in what a document says about one of its transactions. What a document says about another chain is none of its
    /// business.
    public mutating func merge(_ statement: TransactionStatement) {
        guard let statement = own(statement) else { return }
        let key = TransactionKey(statement.transactionId, in: key.scope)
        transactions[statement.transactionId, default: TransactionFact(key)].merge(statement)
    }

    /// Takes in what a document says about what comes next. Renewal info of another subscription is none of this one's.
    public mutating func merge(_ fact: RenewalFact) {
        guard isNamed(fact.originalTransactionId) else { return }
        var fact = fact
        fact.originalTransactionId = key.originalTransactionId
        renewal = renewal?.merged(with: fact) ?? fact
    }

    /// Takes in what a document said that is erased, or that was signed before the chain was.
    package mutating func mergeResidue(_ statement: TransactionStatement) {
        guard let statement = own(statement) else { return }
        let key = TransactionKey(statement.transactionId, in: key.scope)
        residue[statement.transactionId, default: TransactionFact(key)].merge(statement.withoutNames)
    }

    /// Takes in all that is known of a chain that was migrated to this one.
    mutating func takeOver(_ old: Chain) {
        predecessors.formUnion(old.predecessors.union([old.key.originalTransactionId]))
        for statement in old.transactions.values.flatMap(\.statements) { merge(statement) }
        for statement in old.residue.values.flatMap(\.statements) { mergeResidue(statement) }
        if let renewal = old.renewal { merge(renewal) }
    }

    /// Whether documents mean this chain by an original transaction id.
    func isNamed(_ originalTransactionId: String) -> Bool {
        originalTransactionId == key.originalTransactionId || predecessors.contains(originalTransactionId)
    }

    /// A statement about this chain, under its own id.
    private func own(_ statement: TransactionStatement) -> TransactionStatement? {
        guard isNamed(statement.originalTransactionId) else { return nil }
        var statement = statement
        statement.originalTransactionId = key.originalTransactionId
        return statement
    }
}

// MARK: - What is known

extension Chain {
    /// What is known of one transaction.
    public func current(_ fact: TransactionFact) -> TransactionStatement? {
        guard var statement = fact.current else { return nil }
        guard !residue.isEmpty, let judged = judged(fact).current else { return statement }
        statement.revocation = judged.revocation
        statement.isUpgraded = judged.isUpgraded
        return statement
    }

    /// A fact with what is left of its erased documents.
    private func judged(_ fact: TransactionFact) -> TransactionFact {
        guard var judged = residue[fact.key.transactionId] else { return fact }
        for statement in fact.statements { judged.merge(statement) }
        return judged
    }

    /// What is known of the transactions, in no order.
    struct Statements {
        var all: [TransactionStatement] = []
        /// The ids of those that only a receipt says were taken back.
        var cancelledByReceiptAlone: Set<String> = []
        /// The ids of those of which only a residue is left.
        var erased: Set<String> = []
    }

    var statements: Statements {
        var statements = Statements()
        statements.all.reserveCapacity(transactions.count)
        for fact in transactions.values {
            if let statement = current(fact) { statements.all.append(statement) }
            if judged(fact).isCancelledByReceiptAlone {
                statements.cancelledByReceiptAlone.insert(fact.key.transactionId)
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

    /// What must stay true if the documents of the chain are erased: all that is known of its transactions, but for names, if it
    /// takes anything back or counts a consumable; otherwise nothing.
    var residueOfErasure: [String: TransactionFact] {
        guard !residue.isEmpty || history(at: .distantFuture).isMarked else { return [:] }
        var erased = self
        for statement in transactions.values.flatMap(\.statements) { erased.mergeResidue(statement) }
        return erased.residue
    }

    /// The account that the latest purchase names, of those that name one; else the renewal info's. A document about an earlier
    /// period that was signed again, as for its refund, moves the purchase to no one else. Receipts name no account.
    var appAccountToken: String? {
        let named = transactions.values.compactMap(\.signed).filter { $0.appAccountToken != nil }
        let latest = named.max {
            ($0.purchaseDate ?? .distantPast, $0.provenance) < ($1.purchaseDate ?? .distantPast, $1.provenance)
        }
        return latest?.appAccountToken ?? renewal?.appAccountToken
    }

    /// As ``appAccountToken``, as a customer's id.
    var account: CustomerID? { appAccountToken.map { CustomerID($0, of: key.scope.bundleId) } }
}

// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The facts about a purchase: its transactions and, for a subscription, its newest renewal info.
public struct Chain: Hashable, Sendable {
    /// The app and environment of the purchase, and its name among the purchases there.
    public let key: ChainKey
    // Declared before `transactions`: `==` compares members in the order of their declaration, and nearly every
    // notification changes the renewal info, so the comparison of a changed chain usually ends here.
    /// The newest renewal info; `nil` if none has arrived.
    public private(set) var renewal: RenewalFact?
    /// The facts about each transaction, by transaction id.
    public private(set) var transactions: [String: TransactionFact] = [:]
    /// The names of the chains that the App Store migrated to this chain: earlier original transaction ids of the
    /// subscription. Facts about a predecessor are facts about this chain.
    public var predecessors: Set<String> = []
    /// The facts that remain after the erasure of a customer, by transaction id: statements without account,
    /// storefront, offer, price and commitment. Answers do not show the residue by itself, but it affects them. For
    /// example, a transaction that was revoked before the erasure stays revoked, even if a customer presents an older
    /// document about it again. The residue also tells which payments were published.
    ///
    /// A chain that was not erased has residue of a transaction if a different chain with the transaction was erased,
    /// or if the App Store moved a consumable here from the chain of a customer who may have used it.
    public package(set) var residue: [String: TransactionFact] = [:]
    /// The denial of the purchase by the app's backend or the operator; `nil` if the purchase is not denied. A denied
    /// purchase grants nothing; see ``Catalogue/refuses(_:)``.
    public var denial: Denial?

    /// The denial of a purchase. No document and no erasure ends it.
    public struct Denial: Hashable, Sendable {
        /// The time of the denial.
        public var at: Timestamp
        /// The reason, for people.
        public var reason: String

        public init(at: Timestamp, reason: String) {
            self.at = at
            self.reason = reason
        }
    }

    public init(_ key: ChainKey) {
        self.key = key
    }

    /// Merges a statement about a transaction of the chain, even if the statement names a different chain. Ignores
    /// statements about other transactions of other chains.
    public mutating func merge(_ statement: consuming TransactionStatement) {
        guard transactions[statement.transactionId] != nil || isNamed(statement.namedChain) else { return }
        take(statement)
    }

    /// Merges a statement about a transaction, whichever chain it names.
    package mutating func take(_ statement: consuming TransactionStatement) {
        Self.merge(statement, into: &transactions, of: key)
    }

    /// Merges renewal info. Ignores renewal info of other subscriptions.
    public mutating func merge(_ fact: RenewalFact) {
        guard isNamed(fact.chainName) else { return }
        var fact = fact
        fact.chainName = key.name
        renewal = renewal?.merged(with: fact) ?? fact
    }

    /// Merges a statement about a transaction into the residue, whichever chain it names.
    package mutating func mergeResidue(_ statement: consuming TransactionStatement) {
        Self.merge(statement.asResidue, into: &residue, of: key)
    }

    /// Leaves out the periods that a question does not need.
    mutating func keep(_ needed: NeededPeriods) {
        transactions = transactions.filter {
            needed.contains(boughtAt: $0.value.current?.purchaseDate, until: $0.value.current?.expiresDate)
        }
    }

    /// Merges all facts of a chain that was migrated to this chain.
    mutating func takeOver(_ old: Chain) {
        predecessors.formUnion(old.predecessors.union([old.key.name]))
        for statement in old.transactions.values.flatMap(\.statements) { take(statement) }
        for statement in old.residue.values.flatMap(\.statements) { mergeResidue(statement) }
        if let renewal = old.renewal { merge(renewal) }
        denial = denial ?? old.denial
    }

    /// Whether `name` is the name of this chain or of a predecessor.
    func isNamed(_ name: String) -> Bool { name == key.name || predecessors.contains(name) }

    private static func merge(
        _ statement: consuming TransactionStatement, into facts: inout [String: TransactionFact], of key: ChainKey
    ) {
        let id = statement.transactionId
        let name = statement.namedChain
        statement.otherChain = name == key.name ? nil : name
        statement.chainName = key.name
        guard facts[id] == nil else {
            facts[id]?.merge(statement)
            return
        }
        facts[id] = TransactionFact(TransactionKey(id, in: key.scope), statement)
    }
}

/// The periods of a subscription that a question needs, see ``Settlement/newestPeriod``: those bought at `bought` or
/// later, and those that end after `end`.
package struct NeededPeriods {
    package var bought: Timestamp
    package var end: Timestamp

    package func contains(boughtAt purchaseDate: Timestamp?, until expiresDate: Timestamp?) -> Bool {
        guard let purchaseDate, let expiresDate else { return true }
        return purchaseDate >= bought || expiresDate > end
    }
}

// MARK: - What is known

extension Chain {
    /// The present statement about a transaction. The residue of the transaction also counts for whether it is revoked,
    /// upgraded, or shared.
    public func current(_ fact: TransactionFact) -> TransactionStatement? {
        guard var statement = fact.current else { return nil }
        guard !residue.isEmpty, let judged = judged(fact).current else { return statement }
        statement.revocation = judged.revocation
        statement.isUpgraded = judged.isUpgraded
        statement.ownership = judged.ownership
        return statement
    }

    /// Whether a transaction counts in this chain. The App Store has signed the same transaction with different
    /// original transaction ids. Each chain that a document names then has all statements about the transaction, and it
    /// counts in the chain that the newest statement names.
    public func counts(_ transactionId: String) -> Bool {
        transactions[transactionId]?.current.map(isHere) ?? false
    }

    /// Whether a statement of the chain names it, or a predecessor.
    private func isHere(_ statement: TransactionStatement) -> Bool { statement.otherChain.map(isNamed) ?? true }

    /// Whether the chain has facts about a transaction, or residue of it.
    package func knows(_ transaction: TransactionKey) -> Bool {
        let id = transaction.transactionId
        return (transactions[id] != nil || residue[id] != nil) && transaction.scope == key.scope
    }

    /// A fact merged with the residue of the same transaction.
    private func judged(_ fact: TransactionFact) -> TransactionFact {
        guard var judged = residue[fact.key.transactionId] else { return fact }
        for statement in fact.statements { judged.merge(statement) }
        return judged
    }

    /// The number of statements, residue included.
    var statementCount: Int {
        transactions.values.reduce(0) { $0 + $1.statementCount } + residue.values.reduce(0) { $0 + $1.statementCount }
    }

    /// The present statements about all transactions, in no particular order.
    struct Statements {
        var all: [TransactionStatement] = []
        /// The ids of transactions that only a receipt reports as cancelled.
        var cancelledByReceiptAlone: Set<String> = []
        /// The ids of transactions with nothing left but residue.
        var erased: Set<String> = []
    }

    var statements: Statements {
        var statements = Statements()
        statements.all.reserveCapacity(transactions.count)
        let facts = transactions.values
        for index in facts.indices {
            // Most facts are a signed transaction's alone, which needs no copy to be judged.
            if residue.isEmpty, facts[index].receipt == nil, let signed = facts[index].signed {
                if isHere(signed) { statements.all.append(signed) }
                continue
            }
            guard let statement = current(facts[index]), isHere(statement) else { continue }
            statements.all.append(statement)
            if judged(facts[index]).isCancelledByReceiptAlone {
                statements.cancelledByReceiptAlone.insert(facts[index].key.transactionId)
            }
        }
        for (id, fact) in residue where transactions[id] == nil {
            guard let statement = fact.current, isHere(statement) else { continue }
            statements.all.append(statement)
            statements.erased.insert(id)
            if fact.isCancelledByReceiptAlone { statements.cancelledByReceiptAlone.insert(id) }
        }
        return statements
    }

    /// The account named in the documents: the `appAccountToken` of the latest purchase with such a token, otherwise
    /// the token of the renewal info; `nil` without any token. The latest purchase is found by purchase date rather
    /// than by signing date, so that the account does not change if an earlier period is signed again, for example
    /// after its refund. Receipts contain no account token.
    var account: CustomerID? {
        let facts = transactions.values
        var latest: (sortKey: (Timestamp, Provenance), token: String)?
        for index in facts.indices {
            guard let token = facts[index].signed?.appAccountToken, let provenance = facts[index].signed?.provenance,
                facts[index].signed?.otherChain.map(isNamed) ?? true || counts(facts[index].key.transactionId)
            else { continue }
            let sortKey = (facts[index].signed?.purchaseDate ?? .distantPast, provenance)
            if let latest, latest.sortKey >= sortKey { continue }
            latest = (sortKey, token)
        }
        return (latest?.token ?? renewal?.appAccountToken).map { CustomerID($0, of: key.scope.bundleId) }
    }
}

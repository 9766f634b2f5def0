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
    /// What must stay true although the documents that said it were erased.
    public var residue: ErasureResidue?

    public init(_ key: ChainKey) {
        self.key = key
    }

    /// Takes in what a document says about one of its transactions. What a document says about another chain is none of its
    /// business.
    public mutating func merge(_ statement: TransactionStatement) {
        guard isNamed(statement.originalTransactionId) else { return }
        var (id, statement) = (statement.transactionId, statement)
        statement.originalTransactionId = key.originalTransactionId
        transactions[id, default: TransactionFact(TransactionKey(id, in: key.scope))].merge(statement)
    }

    /// Whether documents mean this chain by an original transaction id.
    func isNamed(_ originalTransactionId: String) -> Bool {
        originalTransactionId == key.originalTransactionId || predecessors.contains(originalTransactionId)
    }

    /// Takes in what a document says about what comes next. Renewal info of another subscription is none of this one's.
    public mutating func merge(_ fact: RenewalFact) {
        guard fact.originalTransactionId == key.originalTransactionId else { return }
        renewal = renewal?.merged(with: fact) ?? fact
    }
}

/// What stays of an erased chain: nothing that names a customer, but enough that erasing undoes no refund and credits no
/// consumable twice.
public struct ErasureResidue: Hashable, Sendable {
    /// When the chain was erased. What was signed later holds.
    public var erasedAt: Timestamp
    /// The transactions that were taken back, by id.
    public var revoked: [String: TransactionStatement.Revocation]
    /// The ids of consumables, whose use the app has counted.
    public var consumables: Set<String>

    public init(
        erasedAt: Timestamp, revoked: [String: TransactionStatement.Revocation] = [:], consumables: Set<String> = []
    ) {
        self.erasedAt = erasedAt
        self.revoked = revoked
        self.consumables = consumables
    }
}

extension Chain {
    /// What is known of each transaction, in no order, and the ids of those that only a receipt says were taken back.
    var statements: (all: [TransactionStatement], cancelledByReceiptAlone: Set<String>) {
        var (all, cancelled) = ([TransactionStatement](), Set<String>())
        all.reserveCapacity(transactions.count)
        for fact in transactions.values {
            if let statement = current(fact) { all.append(statement) }
            if fact.isCancelledByReceiptAlone { cancelled.insert(fact.key.transactionId) }
        }
        return (all, cancelled)
    }

    /// What is known of one transaction.
    public func current(_ fact: TransactionFact) -> TransactionStatement? {
        guard var statement = fact.current else { return nil }
        guard let residue, statement.revocation == nil, let taken = residue.revoked[statement.transactionId],
            statement.provenance.signedDate <= residue.erasedAt
        else { return statement }
        statement.revocation = taken
        return statement
    }

    /// What must stay true if the chain is erased at `now`; `nil` if nothing must.
    func residue(at now: Timestamp) -> ErasureResidue? {
        var left = ErasureResidue(
            erasedAt: now, revoked: residue?.revoked ?? [:], consumables: residue?.consumables ?? [])
        for purchase in purchases {
            left.revoked[purchase.transactionId] = purchase.revocation
            if purchase.type == .consumable { left.consumables.insert(purchase.transactionId) }
        }
        return left.revoked.isEmpty && left.consumables.isEmpty ? nil : left
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

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// All that is known of one purchase and what came of it: its transactions and, for a subscription, its newest renewal info.
public struct Chain: Hashable, Sendable {
    public let key: ChainKey
    /// By transaction id.
    public private(set) var transactions: [String: TransactionFact] = [:]
    public private(set) var renewal: RenewalFact?

    public init(_ key: ChainKey) {
        self.key = key
    }

    /// Takes in what a document says about one of its transactions.
    public mutating func merge(_ statement: TransactionStatement) {
        let id = statement.transactionId
        transactions[id, default: TransactionFact(TransactionKey(id, in: key.scope))].merge(statement)
    }

    /// Takes in what a document says about what comes next. Renewal info of another subscription is none of this one's.
    public mutating func merge(_ fact: RenewalFact) {
        guard fact.originalTransactionId == key.originalTransactionId else { return }
        renewal = renewal?.merged(with: fact) ?? fact
    }
}

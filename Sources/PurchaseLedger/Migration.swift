// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// A subscription that the App Store gave another original transaction id, as the notification MIGRATION announces.
//
// A signed transaction then names the id before (`previousOriginalTransactionId`), which proves that both chains are one; so does a
// transaction that documents give different original ids, of which the newest is the new one. All that is known of the old chain moves
// to the new one, whichever document arrives first. The old record keeps the new id, and when the old chain was erased.

extension LedgerDraft {
    /// The chain that documents mean by a key: the one to which it was migrated, which has no successor of its own.
    mutating func resolved(_ key: ChainKey) -> ChainKey {
        guard let successor = loadedRecord(key).successor else { return key }
        return loadedRecord(ChainKey(successor, in: key.scope)).key
    }

    /// Moves chains that a document proves to be older names of one subscription.
    ///
    /// - Returns: The chains that have them now.
    mutating func migrate(_ document: Evidence) -> Set<ChainKey> {
        var migrated: Set<ChainKey> = []
        let named = document.predecessors.sorted { $0.key < $1.key }.map { name, previous in
            (ChainKey(previous, in: document.scope), ChainKey(name, in: document.scope))
        }
        for (old, new) in named where resolved(old) == old && resolved(new) == old {
            // Dates had suggested the opposite.
            migrate(old, to: new)
            migrated.insert(new)
        }
        for (old, new) in named + document.statements.compactMap({ renamed($0, in: document.scope) }) {
            let (old, new) = (resolved(old), resolved(new))
            guard old != new else { continue }
            migrate(old, to: new)
            migrated.remove(old)
            migrated.insert(new)
        }
        return migrated
    }

    /// The older and the newer chain of a transaction, if this gives it another original id than what is known of it. From a migration
    /// on every transaction is signed with the new id, so that it is in the newer ones. Receipts decide only among themselves.
    private mutating func renamed(
        _ statement: TransactionStatement, in scope: LedgerScope
    ) -> (old: ChainKey, new: ChainKey)? {
        // Xcode numbers the transactions of each test from zero.
        guard [.production, .sandbox].contains(scope.environment) else { return nil }
        let named = ChainKey(statement.originalTransactionId, in: scope)
        let transaction = TransactionKey(statement.transactionId, in: scope)
        guard let known = chain(of: transaction), known != named else { return nil }
        let facts = record(resolved(known)).chain.transactions.values
        let (signed, receipts) = (facts.compactMap(\.signed), facts.compactMap(\.receipt))
        let others = statement.source == .signedTransaction || !signed.isEmpty ? signed : receipts
        let isNewer =
            (statement.source == .signedTransaction || signed.isEmpty)
            && others.allSatisfy { $0.provenance < statement.provenance }
        return isNewer ? (known, named) : (named, known)
    }

    private mutating func migrate(_ old: ChainKey, to new: ChainKey) {
        var (before, after) = (record(old), record(new))
        publishDue(&before)
        publishDue(&after)
        after.successor = nil
        after.chain.takeOver(before.chain)
        after.chain.predecessors.remove(new.originalTransactionId)
        after.ownerChanges = (before.ownerChanges + after.ownerChanges).suffix(OwnerChanges.limit)
        for owner in before.owners { link(&after, to: owner.customer, owner.reason) }
        publishMigration(&before, to: new)
        put(before)
        // All earlier names lead to the newest, so that none is followed twice.
        for name in after.chain.predecessors {
            let known = loadedRecord(ChainKey(name, in: old.scope))
            var moved = ChainRecord(known.key)
            moved.successor = new.originalTransactionId
            (moved.erasedAt, moved.lastEventAt) = (known.erasedAt, known.lastEventAt)
            put(moved)
        }
        put(after)
        moveEvidence(from: old, to: new)
    }

    private mutating func publishMigration(_ record: inout ChainRecord, to new: ChainKey) {
        guard let report = record.report else { return }
        for owner in record.owners.isEmpty ? [nil] : record.owners.map({ Optional($0.customer) }) {
            var event = LedgerEvent(.subscriptionMigrated, in: new.scope, at: now, customer: owner)
            (event.before, event.detail) = (report.state, new.originalTransactionId)
            (event.transactionId, event.productId) = (report.transactionId, report.state.productId)
            append(event, about: &record)
        }
    }
}

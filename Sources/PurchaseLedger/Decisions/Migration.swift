// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// A subscription that the App Store gave another original transaction id, as the notification MIGRATION announces.
//
// A signed transaction then names the id before (`previousOriginalTransactionId`), which proves that both chains are one. All that is
// known of the old chain moves to the new one, whichever document arrives first. The old record keeps the new id, and when the old
// chain was erased.

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
        for (name, previous) in document.predecessors.sorted(by: { $0.key < $1.key }) {
            let (old, new) = (
                resolved(ChainKey(previous, in: document.scope)), resolved(ChainKey(name, in: document.scope))
            )
            guard old != new else { continue }
            migrate(old, to: new)
            migrated.remove(old)
            migrated.insert(new)
        }
        return migrated
    }

    private mutating func migrate(_ old: ChainKey, to new: ChainKey) {
        var (before, after) = (record(old), record(new))
        publishDue(&before)
        publishDue(&after)
        after.chain.takeOver(before.chain)
        after.ownerChanges = (before.ownerChanges + after.ownerChanges).suffix(OwnerChanges.limit)
        for owner in before.owners { link(&after, to: owner.customer, owner.reason) }
        publishMigration(&before, to: new)
        put(before)
        // All earlier names lead to the newest, so that none is followed twice.
        for name in before.chain.predecessors.union([old.originalTransactionId]) {
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

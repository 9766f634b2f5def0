// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// A subscription that the App Store gave another original transaction id, as the notification MIGRATION announces.
//
// A signed transaction then names the id before (`previousOriginalTransactionId`), which proves that both chains are one. All that is
// known of the old chain moves to the new one, whichever document arrives first.

extension LedgerDraft {
    /// The chain that documents mean by a key: the one to which it was migrated.
    mutating func resolved(_ key: ChainKey) -> ChainKey {
        var key = key
        for _ in 0..<Self.mostMigrations {
            guard let successor = loadedRecord(key).successor else { return key }
            key = ChainKey(successor, in: key.scope)
        }
        return key
    }

    /// How many migrations of one subscription are followed. A chain that was migrated has no further successor of its own, since
    /// each migration starts from the newest chain.
    static var mostMigrations: Int { 8 }

    /// Moves chains that a document proves to be older names of one subscription.
    mutating func migrate(_ document: Evidence) {
        for (name, previous) in document.predecessors.sorted(by: { $0.key < $1.key }) {
            migrate(ChainKey(previous, in: document.scope), to: ChainKey(name, in: document.scope))
        }
    }

    private mutating func migrate(_ old: ChainKey, to new: ChainKey) {
        let (old, new) = (resolved(old), resolved(new))
        guard old != new else { return }
        var (before, after) = (record(old), record(new))
        after.chain.predecessors.formUnion(before.chain.predecessors.union([old.originalTransactionId]))
        for fact in before.chain.transactions.values {
            for statement in [fact.signed, fact.receipt].compactMap(\.self) { after.chain.merge(statement) }
        }
        after.chain.residue = after.chain.residue ?? before.chain.residue
        // What was erased stays erased under the new id.
        if !after.hasFacts { after.erasedAt = after.erasedAt ?? before.erasedAt }
        after.ownerChanges = (before.ownerChanges + after.ownerChanges).suffix(OwnerChanges.limit)
        for owner in before.owners { link(&after, to: owner.customer, owner.reason) }
        publishMigration(&before, to: new)
        var moved = ChainRecord(old)
        (moved.successor, moved.lastEventAt) = (new.originalTransactionId, before.lastEventAt)
        put(moved)
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

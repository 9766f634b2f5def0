// SPDX-License-Identifier: Apache-2.0

// Migrations: subscriptions to which the App Store gave a new original transaction id. The notification MIGRATION
// announces a migration.
//
// After a migration, a signed transaction names the earlier id (`previousOriginalTransactionId`), and so proves that
// the chains with these two ids (see ``Chain``) are the same subscription. All facts of the old chain move to the new
// chain, whichever document arrives first. The old record keeps only the new id, the time of its erasure, if any, and
// the time of its last event.

import AppStoreModel

extension LedgerDraft {
    /// The chain to which a chain was migrated, or the chain itself.
    mutating func resolved(_ key: ChainKey) -> ChainKey { resolved(record(key)) }

    /// The same as ``resolved(_:)-(ChainKey)``, for a record. One step suffices, because a successor has no successor
    /// of its own.
    mutating func resolved(_ record: ChainRecord) -> ChainKey {
        guard let successor = record.successor else { return record.key }
        return self.record(ChainKey(successor, in: record.key.scope)).key
    }

    /// Migrates chains to their new names, as proven by a document.
    ///
    /// - Parameter end: The end of the changes by time to publish before a migration; see ``publishDue(_:before:)``.
    /// - Returns: The chains that took over the facts of other chains.
    mutating func migrate(_ document: Evidence, before end: Timestamp = .distantFuture) -> Set<ChainKey> {
        guard !document.predecessors.isEmpty else { return [] }
        var migrated: Set<ChainKey> = []
        for (name, previous) in document.predecessors.sorted(by: { $0.key < $1.key }) {
            let old = resolved(ChainKey(previous, in: document.scope))
            let new = resolved(ChainKey(name, in: document.scope))
            guard old != new else { continue }
            migrate(old, to: new, before: end)
            migrated.remove(old)
            migrated.insert(new)
        }
        return migrated
    }

    private mutating func migrate(_ old: ChainKey, to new: ChainKey, before end: Timestamp) {
        var before = record(old)
        var after = record(new)
        publishDue(&before, before: end)
        publishDue(&after, before: end)
        after.chain.takeOver(before.chain)
        after.ownerChanges = (before.ownerChanges + after.ownerChanges).suffix(OwnerChanges.limit)
        after.claimants = before.claimants.union(after.claimants)
        joinOwners(of: before, into: &after)
        publishMigration(&before, to: new)
        put(before)
        // All earlier records point directly to the newest chain.
        for name in before.chain.predecessors.union([old.name]) {
            let known = record(ChainKey(name, in: old.scope))
            var moved = ChainRecord(known.key)
            moved.successor = new.name
            moved.erasedAt = known.erasedAt
            moved.lastEventAt = known.lastEventAt
            put(moved)
        }
        put(after)
        moveEvidence(from: old, to: new)
    }

    /// The owners of both chains own the new one. But if a correction set the owners of one of them, they stay the only
    /// ones.
    private mutating func joinOwners(of before: ChainRecord, into after: inout ChainRecord) {
        if after.isCorrected, !before.isCorrected { return }
        if before.isCorrected, !after.isCorrected {
            for owner in after.owners where !before.isOwned(by: owner.customer) { unlink(&after, from: owner.customer) }
            after.owners = after.owners.compactMap { owner in before.owners.first { $0.customer == owner.customer } }
            after.isCorrected = true
        }
        for owner in before.owners { link(&after, to: owner.customer, owner.reason) }
    }

    private mutating func publishMigration(_ record: inout ChainRecord, to new: ChainKey) {
        guard let report = record.report else { return }
        var content = EventContent(
            effectiveAt: now, transactionId: report.transactionId, productId: report.state.productId, detail: new.name,
            before: report.state)
        content.entitlementsBefore = report.entitlements
        content.entitlementsAfter = GivenEntitlements.empty
        append(.subscriptionMigrated, content, toOwnersOf: &record)
    }
}

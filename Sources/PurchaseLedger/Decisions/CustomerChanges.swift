// SPDX-License-Identifier: Apache-2.0

// An app's changes to its customers: added ids, merges and deletions.

import AppStoreModel

extension LedgerQuery {
    /// The query for customers with their purchases (see ``Chain``) in all environments.
    static func everything(of customers: Set<CustomerID>) -> LedgerQuery {
        .holdings(of: customers, in: Set(Environment.allCases))
    }
}

extension LedgerDraft {
    /// Adds an id to a customer. If the id belongs to a different customer, the two customers are merged.
    ///
    /// - Returns: False if the customer is unknown.
    mutating func addAlias(_ alias: CustomerID, to id: CustomerID, in scope: LedgerScope) -> Bool {
        guard var customer = customer(id) else { return false }
        customer.isEstablished = true
        let isNew = self.customer(alias) == nil
        if let other = self.customer(alias) {
            if other.customer != customer.customer { merge(other, into: &customer, scope) }
        } else {
            customer.ids.append(alias.id)
        }
        put(customer)
        if isNew { append(.aliasAdded, about: customer.customer, in: scope) }
        return true
    }

    /// Merges `other` into a customer. The ids of `other` follow the customer's own ids, the customer gets the grants
    /// of `other`, the chains of `other` get the customer as an owner, and `other` is removed. If both own a chain, and
    /// `other` owns it by a claim or a correction, this remains the reason for the ownership.
    private mutating func merge(_ other: CustomerRecord, into customer: inout CustomerRecord, _ scope: LedgerScope) {
        // Purchases that a third customer owns now are not loaded, so their lists of claimants (``Claimants``) keep the
        // number of `other`. If `other` was the first claimant of such a purchase, the merged customer is not
        // recognized as the first claimant, and the limit on changes of owner (``OwnerChanges``) applies to its claims.
        for var record in chains(of: customer.customer) + chains(of: other.customer) {
            record.claimants.replace(other.customer.number, by: customer.customer.number)
            put(record)
        }
        let chains = chains(of: other.customer)
        noteMerge(of: other, into: customer)
        remove(other)
        customer.ids += other.ids
        take(other.storedGrants, into: &customer)
        put(customer)
        for var record in chains {
            let reason = record.owners.first { $0.customer == other.customer }?.reason ?? Open(.claim)
            record.owners.removeAll { $0.customer == other.customer }
            link(&record, to: customer.customer, reason)
            let index = record.owners.firstIndex { $0.customer == customer.customer }
            if let index, reason.isDecided, !record.owners[index].reason.isDecided {
                record.owners[index].reason = reason
            }
            put(record)
        }
        append(.customersMerged, about: customer.customer, in: scope) { $0.mergedCustomer = other.customer.number }
        mergeAttributes(of: other.customer, into: customer.customer, scope)
    }

    /// Stores the ``MergeNote`` of a merge, before the merge. The earlier merges into `other` become merges into the
    /// customer.
    private mutating func noteMerge(of other: CustomerRecord, into customer: CustomerRecord) {
        var note = MergeNote(other, into: customer, at: now)
        for record in chains(of: other.customer) {
            if record.isOwned(by: customer.customer) {
                note.sharedPurchases.insert(record.key)
            } else {
                note.purchases.insert(record.key)
            }
        }
        if note.purchases.count + note.sharedPurchases.count > MergeNote.maxPurchases { note.removePurchases() }
        note.earlier = merges(into: other.customer)
        put(note)
        redirect(note.earlier, to: customer)
        put(merges(into: customer.customer) + note.earlier + [other.customer.number], mergedInto: customer.customer)
        put([], mergedInto: other.customer)
    }

    /// The numbers of the customers that were merged into a customer.
    mutating func merges(into customer: Customer) -> [Int64] {
        MergedCustomers(readable: record(MergedCustomers.key(customer)))?.numbers ?? []
    }

    /// The note of a merge; `nil` if there is none, or the merge was undone.
    mutating func mergeNote(of number: Int64, in bundleId: String) -> MergeNote? {
        let note = MergeNote(readable: record(MergeNote.key(Customer(number: number, bundleId: bundleId))))
        return note?.into == nil ? nil : note
    }

    /// Notes that some merged customers are now part of a customer.
    mutating func redirect(_ numbers: [Int64], to customer: CustomerRecord) {
        for number in numbers {
            guard var note = mergeNote(of: number, in: customer.customer.bundleId) else { continue }
            note.into = customer.ids.first
            put(note)
        }
    }

    /// Makes the notes of the merges into a customer list only ids that the customer has. A merge without ids cannot be
    /// undone, but what it brought stays when another merge is undone.
    mutating func keepOwnIds(inMergesInto customer: CustomerRecord) {
        for number in merges(into: customer.customer) {
            guard var note = mergeNote(of: number, in: customer.customer.bundleId) else { continue }
            note.keepIds(of: customer)
            let isNeeded = !(note.ids.isEmpty && note.purchases.isEmpty && note.sharedPurchases.isEmpty)
            if isNeeded { put(note) } else { erase(MergeNote.key(note.customer)) }
        }
    }

    /// Replaces the numbers of the customers that were merged into a customer. Beyond ``MergedCustomers/limit``, the
    /// oldest merges are forgotten.
    mutating func put(_ numbers: [Int64], mergedInto customer: Customer) {
        for number in numbers.dropLast(MergedCustomers.limit) { forgetMerge(of: number, in: customer.bundleId) }
        let kept = Array(numbers.suffix(MergedCustomers.limit))
        if !kept.isEmpty { return put(MergedCustomers(customer, kept)) }
        let key = MergedCustomers.key(customer)
        if record(key) != nil { erase(key) }
    }

    /// Erases the note of a merge. The name of the merged customer stays for ``DeletedCustomer/lifetime``, so that a
    /// late reader of the event of the merge still learns it.
    private mutating func forgetMerge(of number: Int64, in bundleId: String) {
        let key = MergeNote.key(Customer(number: number, bundleId: bundleId))
        guard record(key) != nil else { return }
        let name = mergeNote(of: number, in: bundleId).flatMap { DeletedCustomer($0, at: wall) }
        erase(key)
        if let name { put(name) }
    }

    /// The ids that were taken off a customer in the last 30 days.
    mutating func removedIds(of customer: Customer) -> RemovedIds {
        var removed = RemovedIds(readable: record(RemovedIds.key(customer))) ?? RemovedIds(customer)
        removed.forget(at: wall)
        return removed
    }

    /// The ids that were taken off a customer, or off customers that were merged into it, in the last 30 days, and
    /// belong to no customer now.
    private mutating func unusedIds(of customer: Customer) -> [String] {
        var ids: [String] = []
        for number in [customer.number] + merges(into: customer) {
            let removed = removedIds(of: Customer(number: number, bundleId: customer.bundleId))
            for removal in removed.removals where self.customer(CustomerID(removal.id, of: customer.bundleId)) == nil {
                if !ids.contains(where: { $0.isSameID(as: removal.id) }) { ids.append(removal.id) }
            }
        }
        return ids
    }

    /// Erases the records about all merges into a customer, and about an undone merge of the customer itself.
    private mutating func forgetMerges(of customer: Customer) {
        for number in merges(into: customer) { forgetMerge(of: number, in: customer.bundleId) }
        for key in [MergedCustomers.key(customer), MergeNote.key(customer)] where record(key) != nil { erase(key) }
    }
}

/// The result of a customer's erasure.
public struct DeletionReport: Hashable, Sendable {
    /// The number of the customer's purchases in all environments.
    public var purchases: Int
    /// The number of erased documents about these purchases.
    public var erasedDocuments: Int
    /// The number of documents about these purchases that were not erased, because they are also about purchases that
    /// stay. Zero if the ledger keeps all documents (``LedgerRules/keepsEvidence``).
    public var keptDocuments: Int

    public init(purchases: Int, erasedDocuments: Int = 0, keptDocuments: Int = 0) {
        self.purchases = purchases
        self.erasedDocuments = erasedDocuments
        self.keptDocuments = keptDocuments
    }
}

extension LedgerDraft {
    /// Erases a customer. Unless the ledger keeps all documents (``LedgerRules/keepsEvidence``), also erases the chains
    /// without other owners. The customer's ids stay for 30 days, see ``DeletedCustomer``.
    ///
    /// - Parameter instant: The time of the erasure (``ChainRecord/erasedAt``) that is noted in the record of each
    ///   erased chain.
    /// - Returns: `nil` if the customer is unknown.
    mutating func erase(_ id: CustomerID, in scope: LedgerScope, asOf instant: Timestamp) -> DeletionReport? {
        guard let customer = customer(id) else { return nil }
        let records = chains(of: customer.customer)
        let unusedIds = unusedIds(of: customer.customer)
        remove(customer)
        eraseGrants(of: customer)
        eraseAttributes(of: customer.customer)
        var erased: Set<ChainKey> = []
        var accounts: Set<CustomerID> = []
        for var record in records {
            record.claimants.remove(customer.customer.number)
            guard record.owners.count == 1 else {
                record.owners.removeAll { $0.customer == customer.customer }
                put(record)
                continue
            }
            unlink(&record, from: customer.customer)
            guard !rules.keepsEvidence else {
                // If the chain gets a new owner, the residue (the facts kept after an erasure) shows that a consumable
                // may already have been credited.
                record.chain.residue = record.chain.residueOfErasure
                put(record)
                continue
            }
            erased.insert(record.key)
            if let account = record.chain.account { accounts.insert(account) }
            erase(record, asOf: instant)
        }
        leaveResidue(of: records.filter { erased.contains($0.key) })
        for account in accounts.sorted(by: { $0.id < $1.id }) { removeIfUnused(account, in: scope) }
        forgetMerges(of: customer.customer)
        put(DeletedCustomer(customer, requestedId: id.id, removedIds: unusedIds, at: wall))
        changes.events.append(LedgerEvent(.customerDeleted, in: scope, at: now, customer: customer.customer))
        return report(purchases: records.count, erased)
    }

    private mutating func report(purchases: Int, _ erased: Set<ChainKey>) -> DeletionReport {
        let documents = erased.reduce(into: Set()) { $0.formUnion(evidence($1)) }
        let count = documents.count { $0.chains.isSubset(of: erased) }
        return DeletionReport(
            purchases: purchases, erasedDocuments: count, keptDocuments: documents.count - count)
    }

    /// Removes the customer of an account if it existed only because an erased purchase named the account. Such a
    /// customer has no attributes, because an attribute establishes its customer.
    private mutating func removeIfUnused(_ account: CustomerID, in scope: LedgerScope) {
        guard let customer = customer(account), !customer.isEstablished, customer.identifiers == [account],
            chains(of: account).isEmpty
        else { return }
        remove(customer)
        put(DeletedCustomer(customer, requestedId: account.id, at: wall))
        changes.events.append(LedgerEvent(.customerDeleted, in: scope, at: now, customer: customer.customer))
    }
}

// SPDX-License-Identifier: Apache-2.0

// Corrections of customers by the app's backend or the operator: an id is taken off, and a merge is undone.

public import AppStoreModel

/// The outcome of the removal of a customer's id.
public enum AliasRemoval: Hashable, Sendable {
    case removed
    case unknownCustomer
    /// The customer does not have the id.
    case otherId
    /// The id is the customer's first id, by which events name the customer.
    case firstId
}

/// The outcome of the undoing of a merge.
public enum MergeUndoing: Hashable, Sendable {
    /// The merge was undone. The customer has the ids again, and the purchases.
    case undone(ids: [String], purchases: Int)
    case unknownCustomer
    /// No known merge brought the id.
    case notMerged
    /// The merge cannot be undone, because the customer had more purchases or ids than a note of a merge lists.
    case tooLarge
}

extension Ledger {
    /// Takes an id off a customer. The first id cannot be taken off, so a customer keeps an id. Afterwards the id
    /// belongs to no customer, and comes back with no undone merge. Purchases stay with the customer. If a purchase
    /// follows its account token and the token is the id, it leaves the customer with the next document about it.
    public func removeAlias(
        _ alias: String, from id: String, in scope: LedgerScope, _ correction: Correction, at now: Timestamp
    ) async throws -> AliasRemoval {
        let id = CustomerID(id, of: scope.bundleId)
        let alias = CustomerID(alias, of: scope.bundleId)
        return try await commit(LedgerQuery([.customerID(id)]), at: now) { draft in
            draft.correction = correction
            return draft.removeAlias(alias, from: id, in: scope)
        }
    }

    /// Undoes a merge. A customer of its own gets the ids and purchases that the merge brought along, except those that
    /// the customer has lost since, even if they came again with a later merge. Purchases that both customers owned
    /// before the merge then belong to both again. Grants stay with the remaining customer.
    ///
    /// - Parameter id: An id of the merged customer. If several merges brought the id, the earliest is undone.
    public func undoMerge(
        of id: String, in scope: LedgerScope, _ correction: Correction, at now: Timestamp
    ) async throws -> MergeUndoing {
        let id = CustomerID(id, of: scope.bundleId)
        return try await commit(.everything(of: [id]), at: now) { draft in
            draft.correction = correction
            return draft.undoMerge(of: id, in: scope)
        }
    }
}

extension LedgerDraft {
    fileprivate mutating func removeAlias(
        _ alias: CustomerID, from id: CustomerID, in scope: LedgerScope
    ) -> AliasRemoval {
        guard var customer = customer(id) else { return .unknownCustomer }
        guard let index = customer.ids.firstIndex(where: { $0.isSameID(as: alias.id) }) else { return .otherId }
        guard index > 0 else { return .firstId }
        customer.ids.remove(at: index)
        put(customer)
        renewGrantNotes(of: customer)
        keepOwnIds(inMergesInto: customer)
        var removed = removedIds(of: customer.customer)
        let number = removed.add(alias.id, at: wall)
        put(removed)
        append(.aliasRemoved, about: customer.customer, in: scope) { $0.removedId = number }
        return .removed
    }

    fileprivate mutating func undoMerge(of id: CustomerID, in scope: LedgerScope) -> MergeUndoing {
        guard var survivor = customer(id) else { return .unknownCustomer }
        let merged = merges(into: survivor.customer)
        let notes = merged.compactMap { mergeNote(of: $0, in: scope.bundleId) }
        // The list has the merges in their order. The times of the merges may not, if the clock was ahead.
        guard var note = notes.first(where: { $0.ids.contains { $0.isSameID(as: id.id) } }) else { return .notMerged }
        guard note.isComplete else { return .tooLarge }
        // The first id is always the customer's own.
        let own = Set(survivor.ids.dropFirst().map { CustomerID($0, of: scope.bundleId) })
        let ids = note.ids.filter { own.contains(CustomerID($0, of: scope.bundleId)) }
        guard !ids.isEmpty else { return .notMerged }
        survivor.ids.removeAll { kept in ids.contains { $0.isSameID(as: kept) } }
        put(survivor)
        renewGrantNotes(of: survivor)
        // The customer gets its number back, so that its events from before the merge name it again.
        let restored = CustomerRecord(note.customer, ids: ids, isEstablished: true)
        put(restored)
        let earlier = note.earlier.filter(merged.contains)
        redirect(earlier, to: restored)
        let others = merged.filter { $0 != note.customer.number && !earlier.contains($0) }
        put(others, mergedInto: survivor.customer)
        put(earlier, mergedInto: restored.customer)
        let other = OtherMerges(notes, than: note)
        let chains = giveBack(note, from: survivor.customer, other)
        let leaving = Leaving(numbers: Set(earlier + [note.customer.number]), chains)
        remove(leaving, note, fromMergesInto: survivor, other)
        note.noteUndoing(as: restored)
        put(note)
        append(.customerUnmerged, about: restored.customer, in: scope)
        return .undone(ids: ids, purchases: chains.count)
    }

    /// Gives the purchases of a merge back to the merged customer.
    ///
    /// - Returns: The purchases that were given back, and whether they stay with the remaining customer too.
    private mutating func giveBack(
        _ note: MergeNote, from survivor: Customer, _ other: OtherMerges
    ) -> [(Chain, isShared: Bool)] {
        var chains: [(Chain, isShared: Bool)] = []
        for var record in self.chains(of: survivor) {
            let wasShared = MergeNote.contains(record.chain, in: note.sharedPurchases)
            guard wasShared || MergeNote.contains(record.chain, in: note.purchases),
                !MergeNote.contains(record.chain, in: other.broughtAgain)
            else { continue }
            let isShared = wasShared || MergeNote.contains(record.chain, in: other.shared)
            chains.append((record.chain, isShared))
            evaluate(&record)
            if !isShared {
                record.claimants.replace(survivor.number, by: note.customer.number)
                unlink(&record, from: survivor)
            }
            link(&record, to: note.customer, Open(.correction))
            put(record)
        }
        return chains
    }

    /// Removes everything that left a customer from the notes of the remaining merges into the customer. If it comes
    /// again, by a later merge, it belongs to the later merge.
    ///
    /// - Parameter undone: The note of the undone merge. The first later merge with a purchase of it is now the merge
    ///   that brought the purchase.
    private mutating func remove(
        _ leaving: Leaving, _ undone: MergeNote, fromMergesInto survivor: CustomerRecord, _ other: OtherMerges
    ) {
        var brought = undone.purchases
        for number in merges(into: survivor.customer) {
            guard var note = mergeNote(of: number, in: survivor.customer.bundleId) else { continue }
            note.earlier.removeAll(where: leaving.numbers.contains)
            note.purchases.subtract(leaving.purchases)
            note.sharedPurchases.subtract(leaving.purchases)
            if other.containers.contains(number) {
                note.purchases.subtract(undone.purchases)
                note.sharedPurchases.subtract(undone.purchases)
            } else if other.later.contains(number) {
                let first = note.sharedPurchases.intersection(brought)
                note.sharedPurchases.subtract(first)
                note.purchases.formUnion(first)
                brought.subtract(first)
            }
            put(note)
        }
        keepOwnIds(inMergesInto: survivor)
    }
}

/// The merges into a customer that can have brought a purchase of a merge too.
private struct OtherMerges {
    /// The customers of the merges that brought along the merge.
    let containers: Set<Int64>
    /// The customers of the later merges, without those that a later merge brought along.
    let later: Set<Int64>
    /// The purchases that the remaining customer did not have at a later merge, which brought them: it had lost them,
    /// and they belong to the later merge.
    let broughtAgain: Set<ChainKey>
    /// The purchases that the remaining customer had when another merge brought them too: they belong to both.
    let shared: Set<ChainKey>

    init(_ notes: [MergeNote], than note: MergeNote) {
        let number = note.customer.number
        let containers = notes.filter { $0.earlier.contains(number) }
        let others = notes.drop { $0.customer != note.customer }.dropFirst().filter { !$0.earlier.contains(number) }
        let nested = Set(others.flatMap(\.earlier))
        let later = others.filter { !nested.contains($0.customer.number) }
        self.containers = Set(containers.map(\.customer.number))
        self.later = Set(later.map(\.customer.number))
        broughtAgain = later.reduce(into: []) { $0.formUnion($1.purchases) }
        shared = (containers + later).reduce(into: []) { $0.formUnion($1.sharedPurchases) }
    }
}

/// Everything except ids that leaves a customer if a merge is undone.
private struct Leaving {
    /// The numbers of the merged customers.
    let numbers: Set<Int64>
    /// The purchases, also by the names that they had before a migration.
    let purchases: Set<ChainKey>

    init(numbers: Set<Int64>, _ chains: [(Chain, isShared: Bool)]) {
        self.numbers = numbers
        var purchases: Set<ChainKey> = []
        for (chain, isShared) in chains where !isShared {
            for name in chain.predecessors.union([chain.key.name]) {
                purchases.insert(ChainKey(name, in: chain.key.scope))
            }
        }
        self.purchases = purchases
    }
}

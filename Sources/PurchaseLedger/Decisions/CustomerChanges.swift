// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// What an app does to its customers: another id, and erasure.

/// Another id for a customer. If it is a customer already, the two become one.
struct Aliasing: Sendable {
    var id: CustomerID
    var alias: CustomerID
    var scope: LedgerScope

    var query: LedgerQuery {
        var query = LedgerQuery()
        query.customers = [id, alias]
        query.holdings = Set(Environment.allCases)
        return query
    }

    /// - Returns: False if the customer is not known.
    func decide(_ snapshot: LedgerSnapshot, _ rules: LedgerRules, at now: Timestamp) -> LedgerDecision<Bool> {
        LedgerDraft.decide(snapshot, rules, at: now) { $0.apply(self) }
    }
}

extension LedgerDraft {
    fileprivate mutating func apply(_ aliasing: Aliasing) -> Bool {
        guard var customer = customer(aliasing.id) else { return false }
        customer.isEstablished = true
        if let other = self.customer(aliasing.alias) {
            if other.customer != customer.customer { merge(other, into: &customer, aliasing.scope) }
        } else {
            customer.ids.append(aliasing.alias.id)
        }
        put(customer)
        return true
    }

    /// Gives all ids and chains of `other` to a customer, after its own, and removes `other`. Of two links to one chain the claim
    /// stays.
    private mutating func merge(_ other: CustomerRecord, into customer: inout CustomerRecord, _ scope: LedgerScope) {
        let chains = chains(of: other.customer)
        remove(other)
        customer.ids += other.ids
        put(customer)
        for var record in chains {
            let reason = record.owners.first { $0.customer == other.customer }?.reason ?? .claim
            record.owners.removeAll { $0.customer == other.customer }
            link(&record, to: customer.customer, reason)
            if reason == .claim, let place = record.owners.firstIndex(where: { $0.customer == customer.customer }) {
                record.owners[place].reason = .claim
            }
            put(record)
        }
        append(LedgerEvent(.customersMerged, in: scope, at: now, customer: customer.customer))
    }
}

/// The erasure of a customer.
struct CustomerErasure: Sendable {
    var id: CustomerID
    var scope: LedgerScope

    var query: LedgerQuery {
        var query = LedgerQuery()
        query.customers = [id]
        query.holdings = Set(Environment.allCases)
        return query
    }

    /// - Returns: `nil` if the customer is not known.
    func decide(
        _ snapshot: LedgerSnapshot, _ rules: LedgerRules, at now: Timestamp
    ) -> LedgerDecision<DeletionReport?> {
        guard let customer = snapshot.customer(id) else { return .commit(LedgerChanges(), nil) }
        let chains = snapshot.chains.values.filter { $0.isOwned(by: customer.customer) }
        var more = LedgerQuery()
        if !rules.keepsEvidence {
            let unowned = chains.filter { $0.owners.count == 1 }
            more.evidence = Set(unowned.map(\.key))
            more.customers = Set(
                unowned.compactMap(\.chain.account))
        }
        guard more.evidence.isSubset(of: snapshot.query.evidence), more.customers.isSubset(of: snapshot.query.customers)
        else { return .load(more) }
        return LedgerDraft.decide(snapshot, rules, at: now) { draft in
            let deleted = draft.erase(customer, accounts: more.customers)
            draft.append(LedgerEvent(.customerDeleted, in: scope, at: now, customer: customer.customer))
            return deleted
        }
    }
}

extension LedgerDraft {
    /// Erases a customer and, unless evidence is kept, the chains that it owned alone.
    ///
    /// - Parameter accounts: Those that these chains name.
    fileprivate mutating func erase(_ customer: CustomerRecord, accounts: Set<CustomerID>) -> DeletionReport {
        let records = chains(of: customer.customer)
        var deleted = DeletionReport(purchases: records.count)
        remove(customer)
        var unowned: Set<ChainKey> = []
        for var record in records {
            guard record.owners.count == 1 else {
                record.owners.removeAll { $0.customer == customer.customer }
                put(record)
                continue
            }
            unlink(&record, from: customer.customer)
            guard !rules.keepsEvidence else {
                // What was used stays used, for whoever presents it next.
                record.chain.residue = record.chain.residueOfErasure
                put(record)
                continue
            }
            unowned.insert(record.key)
            erase(record)
        }
        let documents = Set(unowned.flatMap(evidence))
        deleted.erasedDocuments = documents.count { $0.chains.isSubset(of: unowned) }
        deleted.keptDocuments = documents.count - deleted.erasedDocuments
        for account in accounts.sorted(by: { $0.id < $1.id }) { removeIfUnused(account) }
        return deleted
    }

    /// Removes a customer who existed only because an erased purchase named the account.
    private mutating func removeIfUnused(_ account: CustomerID) {
        guard let customer = customer(account), !customer.isEstablished, customer.ids == [account.id],
            chains(of: customer.customer).isEmpty
        else { return }
        remove(customer)
    }
}

/// What became of a customer that was deleted.
public struct DeletionReport: Hashable, Sendable {
    /// The purchases that were the customer's, in all environments.
    public var purchases: Int
    /// The signed documents that were erased with them.
    public var erasedDocuments: Int
    /// The signed documents about them that stay, since they are about purchases of others too. If the ledger keeps
    /// evidence, none is counted.
    public var keptDocuments: Int

    public init(purchases: Int, erasedDocuments: Int = 0, keptDocuments: Int = 0) {
        self.purchases = purchases
        self.erasedDocuments = erasedDocuments
        self.keptDocuments = keptDocuments
    }
}

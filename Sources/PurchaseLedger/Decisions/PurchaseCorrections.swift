// SPDX-License-Identifier: Apache-2.0

// Corrections of purchases by the app's backend or the operator: the owners of a purchase are set, and a purchase is
// denied or allowed again.

public import AppStoreModel

/// The owners of a purchase after a correction, and its denial.
public struct CorrectedPurchase: Hashable, Sendable {
    /// An owner of a purchase.
    public struct Owner: Hashable, Sendable {
        /// The first id of the customer.
        public var id: String
        /// The reason of the ownership.
        public var reason: Open<LinkReason>
    }

    /// The present key of the purchase.
    public var key: ChainKey
    /// The owners.
    public var owners: [Owner]
    /// The denial; `nil` if the purchase is not denied.
    public var denial: Chain.Denial?
}

extension Ledger {
    /// The maximum number of owners that a correction sets. Even a shared purchase belongs to the accounts of a family.
    public static let maxOwners = 10

    /// Makes customers the only owners of a purchase, whatever the claim policy. The first of them becomes the first
    /// claimant (``Claimants``). Afterwards neither a document nor a claim changes the owners, but only a further
    /// correction.
    ///
    /// - Parameters:
    ///   - key: Any transaction of the purchase, or its original transaction id.
    ///   - ids: The ids of the customers: 1 to ``maxOwners``. An unknown id creates a customer.
    /// - Returns: `nil` if the purchase is unknown.
    public func move(
        _ key: TransactionKey, to ids: [String], _ correction: Correction, at now: Timestamp
    ) async throws -> CorrectedPurchase? {
        let ids = ids.prefix(Self.maxOwners).map { CustomerID($0, of: key.scope.bundleId) }
        guard !ids.isEmpty else { return nil }
        return try await correct(key, loading: ids, correction, at: now) { $0.move(&$1, to: ids) }
    }

    /// Denies a purchase: it then grants nothing, like a purchase in ``Catalogue/refusedPurchases``. A denied purchase
    /// stays denied, with its first reason.
    ///
    /// - Parameter key: Any transaction of the purchase, or its original transaction id.
    /// - Returns: `nil` if the purchase is unknown.
    public func deny(
        _ key: TransactionKey, _ correction: Correction, at now: Timestamp
    ) async throws -> CorrectedPurchase? {
        try await correct(key, correction, at: now) { draft, record in
            guard record.chain.denial == nil else { return }
            let denial = Chain.Denial(at: now, reason: correction.reason)
            draft.set(denial, of: &record, .purchaseDenied)
        }
    }

    /// Ends the denial of a purchase. The configuration may still refuse it.
    ///
    /// - Parameter key: Any transaction of the purchase, or its original transaction id.
    /// - Returns: `nil` if the purchase is unknown.
    public func allow(
        _ key: TransactionKey, _ correction: Correction, at now: Timestamp
    ) async throws -> CorrectedPurchase? {
        try await correct(key, correction, at: now) { draft, record in
            guard record.chain.denial != nil else { return }
            draft.set(nil, of: &record, .purchaseAllowed)
        }
    }

    private func correct(
        _ key: TransactionKey, loading ids: [CustomerID] = [], _ correction: Correction, at now: Timestamp,
        _ change: @escaping @Sendable (inout LedgerDraft, inout ChainRecord) -> Void
    ) async throws -> CorrectedPurchase? {
        var found = try await chain(of: key)
        // The ledger may know the purchase without its first transaction.
        if found == nil { found = try await chain(ChainKey(key.transactionId, in: key.scope)) }
        guard let name = found?.key else { return nil }
        let query = LedgerQuery([.chain(name)] + ids.map(LedgerKey.customerID), owners: true)
        return try await commit(query, at: now) { draft in
            draft.correction = correction
            var record = draft.record(draft.resolved(name))
            guard record.hasFacts else { return nil }
            draft.evaluate(&record)
            change(&draft, &record)
            draft.put(record)
            return draft.corrected(record)
        }
    }
}

extension LedgerDraft {
    /// Makes customers the only owners of a purchase, whatever the claim policy.
    mutating func move(_ record: inout ChainRecord, to ids: [CustomerID]) {
        var owners: [Customer] = []
        for id in ids {
            // Without a customer, the decision runs again.
            guard let customer = findOrAddCustomer(id) else { return }
            establish(customer)
            if !owners.contains(customer) { owners.append(customer) }
        }
        let losers = record.owners.map(\.customer).filter { !owners.contains($0) }
        if losers.contains(where: { customer($0)?.isEstablished ?? false }) {
            var changes = OwnerChanges(record.ownerChanges)
            changes.add(now)
            record.ownerChanges = changes.times
        }
        if let first = owners.first, !losers.isEmpty { record.claimants.makeFirst(first.number, at: now) }
        for loser in losers { unlink(&record, from: loser) }
        for owner in owners {
            if let known = record.owners.first(where: { $0.customer == owner }), known.reason != .correction {
                // The correction changes nothing but the reason, and is an event all the same.
                var content = EventContent(about: record, at: now, detail: LinkReason.correction.rawValue)
                content.before = record.report?.state
                content.after = record.report?.state
                content.entitlementsBefore = record.report?.entitlements
                content.entitlementsAfter = record.report?.entitlements
                append(.linked, content, to: owner, about: &record)
            }
            link(&record, to: owner, Open(.correction))
        }
        record.owners = owners.map { ChainRecord.Owner($0, .correction) }
        record.isCorrected = true
    }

    fileprivate mutating func set(
        _ denial: Chain.Denial?, of record: inout ChainRecord, _ kind: LedgerEvent.Kind
    ) {
        let old = record.report
        record.chain.denial = denial
        evaluate(&record)
        // Without the app's catalogue, a server with the catalogue evaluates the chain at its start.
        noteCatalogue(of: record)
        // Without the app's catalogue, the state stays as published.
        guard record.report != nil, rules.catalogues[record.key.scope.bundleId] != nil else {
            var content = EventContent(
                effectiveAt: now, transactionId: old?.transactionId, productId: old?.state.productId,
                before: old?.state, after: old?.state)
            content.entitlementsBefore = old?.entitlements
            content.entitlementsAfter = old?.entitlements
            return append(kind, content, toOwnersOf: &record)
        }
        let new = ChainEvaluation(record.chain, rules.catalogue(record.key.scope), at: now)
        append(kind, EventContent(new.report.change(kind), from: old, to: new, at: now), toOwnersOf: &record)
    }

    /// Publishes the due changes and the present state of a chain. Without the app's catalogue, no state is known, and
    /// nothing is published.
    mutating func evaluate(_ record: inout ChainRecord) {
        guard rules.catalogues[record.key.scope.bundleId] != nil else { return }
        publishDue(&record)
        publish(&record, asOf: now, effectiveAt: now)
    }

    fileprivate func corrected(_ record: ChainRecord) -> CorrectedPurchase {
        let owners = record.owners.map { owner in
            CorrectedPurchase.Owner(id: customer(owner.customer)?.ids.first ?? "", reason: owner.reason)
        }
        return CorrectedPurchase(key: record.key, owners: owners, denial: record.chain.denial)
    }
}

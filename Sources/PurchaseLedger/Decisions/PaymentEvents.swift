// SPDX-License-Identifier: Apache-2.0

// Events about payments: one for each transaction that is new to the ledger, and further ones if more becomes known
// about it, or if it is revoked. Only documents that are recorded lead to such events. A rebuild, a copy, a merge of
// customers and a move between chains (``Chain``) do not.

import AppStoreModel

extension LedgerDraft {
    /// Publishes what the documents of a recording say about payments, before all other events of the decision. Called
    /// once, after all documents were merged, and the chains were published: what the ledger knew before the recording
    /// is compared with what it knows now, so neither the order of the documents nor their chains matter.
    mutating func publishPayments(of recording: Recording) {
        let others = changes.events
        changes.events = []
        var told: Set<Payment> = []
        for document in recording.documents {
            let chains = document.chains(isClaimed: recording.claimant != nil).map { resolved($0) }
            for statement in document.statements + chains.flatMap({ judgedAnew(in: $0) }) {
                let key = TransactionKey(statement.transactionId, in: document.scope)
                let payment = Payment(key: key, chain: key.isUnique ? nil : statement.chainName)
                guard !statement.isAppPurchase, told.insert(payment).inserted else { continue }
                publishPayment(key, statement, of: document, isBackfill: recording.isBackfill, besides: others)
            }
        }
        changes.events += others
    }

    /// The transactions of a chain that are revoked since the recording, or not any more. Also a document about another
    /// transaction may show that what a receipt reports as cancelled was an upgrade.
    private mutating func judgedAnew(in key: ChainKey) -> [TransactionStatement] {
        let record = record(key)
        guard let revoked = record.report?.revoked, let before = loaded.chains[key]?.report?.revoked, revoked != before
        else { return [] }
        return revoked.symmetricDifference(before).sorted().compactMap { record.chain.statement($0) }
    }

    /// A transaction in its chain, which is `nil` where ids are unique.
    private struct Payment: Hashable {
        var key: TransactionKey
        var chain: String?
    }

    private mutating func publishPayment(
        _ key: TransactionKey, _ statement: TransactionStatement, of document: Evidence, isBackfill: Bool,
        besides others: [LedgerEvent]
    ) {
        let id = key.transactionId
        let named = record(resolved(ChainKey(statement.chainName, in: key.scope)))
        let found = named.chain.counts(id) ? named : (key.isUnique ? chains(of: key) : [named]).having(key)
        guard var record = found, let present = record.chain.statement(about: key) else { return }
        let history = histories[record.key]
        // What a receipt reports as cancelled may be an upgrade, as only the history shows.
        var payment = history?.purchase(id) ?? present
        let isErased = record.chain.transactions[id] == nil
        if isErased {
            // Residue has no price, and the document may.
            payment = statement
            payment.revocation = present.revocation
        }
        let same = loaded.chains[record.key]
        let old =
            same?.chain.counts(id) == true
            ? same : (key.isUnique ? Array(loaded.chains.values) : [same].compactMap(\.self)).having(key)
        let before = old.flatMap { $0.chain.statement(about: key) }
        let wasErased = old?.chain.transactions[id] == nil
        var isRevoked = (before: before?.revocation != nil, now: payment.revocation != nil)
        if let old, old.chain.counts(id), let report = old.report { isRevoked.before = report.revoked.contains(id) }
        var kinds: [(kind: LedgerEvent.Kind, isRepeated: Bool)] = []
        if before == nil {
            kinds.append((.transactionRecorded, false))
        } else if wasErased, !isErased {
            kinds.append((.transactionRecorded, true))
        } else if !wasErased, let before {
            let isTold = others.contains { $0.chainName == record.key.name && $0.scope == record.key.scope }
            if payment.completes(before) || !isTold && present.shows(otherThan: before) {
                kinds.append((.transactionCompleted, false))
            }
        }
        if before != nil, isRevoked.now {
            let isLarger = before?.revocation?.percentage != payment.revocation?.percentage
            if !isRevoked.before || isLarger { kinds.append((.transactionRevoked, false)) }
        } else if isRevoked.before {
            kinds.append((.transactionRevocationReversed, false))
        }
        guard !kinds.isEmpty else { return }
        var details = EventDetails(
            payment: payment, at: payment.isSubscription ? history?.place(ofTransaction: id) : nil)
        details.backfilled = isBackfill ? true : nil
        var content = EventContent(
            payment: details, effectiveAt: min(document.signedDate ?? now, now), transactionId: id,
            productId: payment.productId)
        for (kind, isRepeated) in kinds {
            content.details?.repeated = isRepeated ? true : nil
            append(kind, content, to: record.owners.first?.customer, about: &record)
        }
        put(record)
    }
}

extension Sequence<ChainRecord> {
    /// The chain in which a transaction counts, or else a chain with the transaction, or else with residue of it
    /// (``Chain/residue``).
    fileprivate func having(_ key: TransactionKey) -> ChainRecord? {
        let known = filter { $0.chain.knows(key) }.sorted { $0.key < $1.key }
        return known.first { $0.chain.counts(key.transactionId) }
            ?? known.first { $0.chain.transactions[key.transactionId] != nil } ?? known.first
    }
}

extension Chain {
    /// The present statement about a transaction, or that in its residue.
    fileprivate func statement(about key: TransactionKey) -> TransactionStatement? {
        if let fact = transactions[key.transactionId] { return current(fact) }
        return residue[key.transactionId].flatMap { fact in
            var statement = fact.current
            // The cancellation of a receipt may have been an upgrade. If it was a refund, it is told once more.
            if fact.isCancelledByReceiptAlone { statement?.revocation = nil }
            return statement
        }
    }
}

extension TransactionStatement {
    /// Whether the price, the currency, the storefront or the ownership was unknown or different before.
    fileprivate func completes(_ before: TransactionStatement) -> Bool {
        price != nil && price != before.price || currency != nil && currency != before.currency
            || storefront != nil && storefront != before.storefront || ownership != nil && ownership != before.ownership
    }

    /// Whether answers show a different end, or for the first time that the period was upgraded. The state of the
    /// subscription may be the same, as after an earlier period.
    fileprivate func shows(otherThan before: TransactionStatement) -> Bool {
        isUpgraded && !before.isUpgraded || !end.isNear(before.end)
    }
}

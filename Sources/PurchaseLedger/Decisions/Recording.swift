// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Documents to record, and who presents them.
struct Recording: Sendable {
    var documents: [Evidence]
    /// The customer who presents them, if one does.
    var claimant: CustomerID?
    /// Whether claims may change the owner of a chain only a few times a day.
    var limitsClaims = false

    /// What has to be loaded, as far as the documents say it.
    var query: LedgerQuery {
        var query = LedgerQuery()
        query.arriving = documents.flatMap { $0.parts + [$0] }
        query.names = Set(query.arriving.map(\.provenance))
        for document in documents {
            query.chains.formUnion(document.chains)
            query.chains.formUnion(document.predecessors.values.map { ChainKey($0, in: document.scope) })
            query.customers.formUnion(document.accounts)
        }
        if let claimant {
            query.customers.insert(claimant)
            query.owners = true
        }
        return query
    }

    /// Records the documents: they themselves, the facts in them, whose they are and what changed.
    func decide(_ snapshot: LedgerSnapshot, _ rules: LedgerRules, at now: Timestamp) -> LedgerDecision<RecordResult>
    {
        LedgerDraft.decide(snapshot, rules, at: now) { $0.record(self) }
    }
}

extension Evidence {
    /// The accounts that it names.
    fileprivate var accounts: Set<CustomerID> {
        let tokens = statements.compactMap(\.appAccountToken) + renewals.compactMap(\.appAccountToken)
        return Set(tokens.map { CustomerID($0, of: scope.bundleId) })
    }

    /// Adds what it says about a chain.
    func merge(into chain: inout Chain) {
        for statement in statements { chain.merge(statement) }
        for renewal in renewals { chain.merge(renewal) }
    }

    /// Whether it is over for a record that was erased: it was signed before.
    fileprivate func isOver(_ record: ChainRecord) -> Bool {
        guard let erasedAt = record.erasedAt else { return false }
        return signedDate.map { $0 <= erasedAt } ?? true
    }
}

extension LedgerDraft {
    mutating func record(_ recording: Recording) -> RecordResult {
        var recorded = RecordResult()
        let claimant = recording.claimant.flatMap { addedCustomer($0)?.customer }
        if let claimant { establish(claimant) }
        for document in recording.documents {
            let migrated = migrate(document)
            let keys = applicable(document, isClaimed: recording.claimant != nil)
            // Nothing is left of a document if all of its chains were erased since it was signed.
            let isErased = keys.isEmpty && !document.chains.isEmpty
            let isNew = !isErased && !isStored(document)
            if isNew { recorded.new += 1 } else { recorded.known += 1 }
            // A stored document was recorded when it arrived. It matters again only to a customer who presents it.
            let isRecorded = isNew || claimant != nil && !isErased
            if isRecorded {
                store(document, for: Set(keys))
                if isNew { publish(document) }
                for account in document.accounts.sorted(by: { $0.id < $1.id }) { _ = addedCustomer(account) }
                for key in keys { record(document, about: key, recording, claimant, &recorded) }
            }
            for key in migrated.subtracting(isRecorded ? keys : []).sorted() { publishAll(key) }
        }
        return recorded
    }

    /// The chains that a document still applies to. Those that were erased after it was signed are excluded, unless a customer
    /// presents it; of these it says only what was taken back.
    private mutating func applicable(_ document: Evidence, isClaimed: Bool) -> [ChainKey] {
        var (keys, known) = ([ChainKey](), Set<ChainKey>())
        for named in document.chains {
            let key = resolved(named)
            let earlier = document.predecessors[named.originalTransactionId].map { ChainKey($0, in: named.scope) }
            if !isClaimed, [named, earlier].compactMap(\.self).contains(where: { document.isOver(record($0)) }) {
                leave(document, to: key)
                continue
            }
            restore(named)
            if known.insert(key).inserted { keys.append(key) }
        }
        return keys
    }

    /// Ends the erasure of a chain.
    private mutating func restore(_ key: ChainKey) {
        var record = record(key)
        guard record.erasedAt != nil else { return }
        record.erasedAt = nil
        put(record)
    }

    /// Keeps, of a document about an erased chain that arrives late, what it says about transactions that must not be credited again.
    private mutating func leave(_ document: Evidence, to key: ChainKey) {
        var record = record(key)
        for statement in document.statements {
            let isKept = record.chain.residue[statement.transactionId] != nil
            if isKept || statement.revocation != nil || statement.isUpgraded { record.chain.mergeResidue(statement) }
        }
        if record != self.record(key) { put(record) }
    }

    /// Publishes what a chain is now.
    mutating func publishAll(_ key: ChainKey) {
        var record = record(key)
        publish(&record, asOf: now, effectiveAt: now)
        put(record)
    }

    private mutating func record(
        _ document: Evidence, about key: ChainKey, _ recording: Recording, _ claimant: Customer?,
        _ recorded: inout RecordResult
    ) {
        var record = record(key)
        let signed = min(document.signedDate ?? now, now)
        publishDue(&record, before: signed)
        document.merge(into: &record.chain)
        // All documents together decide who owns a purchase, so that their order does not matter.
        var whole = record.chain
        if claimant != nil {
            for other in recording.documents where other.scope == key.scope { other.merge(into: &whole) }
        }
        // In this order, so that a change is published to the customer it now concerns.
        linkByToken(&record, whole)
        if let claimant { claim(&record, whole, for: claimant, isLimited: recording.limitsClaims, &recorded) }
        // What time brought since it was signed comes after it, so that the document does not date it.
        if let due = record.report?.nextChange, signed < due, due <= now {
            publish(&record, asOf: Timestamp(milliseconds: due.milliseconds - 1), effectiveAt: signed)
            publishDue(&record)
        } else {
            publish(&record, asOf: now, effectiveAt: signed)
        }
        put(record)
    }

    /// Publishes a notification about no purchase, or of an unknown type, so that none is dropped unseen.
    private mutating func publish(_ document: Evidence) {
        guard let notification = document.notification,
            document.statements.isEmpty || NotificationTypeV2(rawValue: notification.type) == nil
        else { return }
        let name = [notification.type, notification.subtype].compactMap { $0 }.joined(separator: "/")
        var event = LedgerEvent(.notificationReceived, in: document.scope, at: now, detail: name)
        event.effectiveAt = min(document.signedDate ?? now, now)
        append(event)
    }
}

// MARK: - Owners

extension LedgerDraft {
    /// Links a chain to the customer whose id the `appAccountToken` of its latest purchase is, and to no one if none is named.
    ///
    /// - Parameter chain: What decides about the owner.
    private mutating func linkByToken(_ record: inout ChainRecord, _ chain: Chain) {
        // An accepted claim stays.
        guard !record.owners.contains(where: { $0.reason == .claim }) else { return }
        let customer = chain.account.flatMap { addedCustomer($0)?.customer }
        guard record.owners.map(\.customer) != [customer].compactMap(\.self) else { return }
        for owner in record.owners where owner.customer != customer { unlink(&record, from: owner.customer) }
        if let customer { link(&record, to: customer, .appAccountToken) }
    }

    private mutating func claim(
        _ record: inout ChainRecord, _ chain: Chain, for claimant: Customer, isLimited: Bool,
        _ recorded: inout RecordResult
    ) {
        let key = record.key
        let claim = Claim(
            policy: rules.claimPolicy, claimant: claimant, owners: record.owners.map { party($0.customer) },
            account: chain.account.flatMap { loadedCustomer($0) }.map { party($0.customer) },
            isEntitling: Holdings([chain], catalogue: rules.catalogue(key.scope), at: now).isEntitling)
        switch claim.outcome {
        case .unchanged: return
        case .refused: recorded.kept.insert(key)
        case .accepted(let losers):
            if claim.changesOwner {
                var changes = OwnerChanges(record.ownerChanges)
                if isLimited, claim.isLimited, let retryAt = changes.nextAllowed(at: now) {
                    recorded.kept.insert(key)
                    recorded.tooManyClaims[key] = retryAt
                    return
                }
                changes.add(now)
                record.ownerChanges = changes.times
            }
            for loser in losers { unlink(&record, from: loser) }
            link(&record, to: claimant, .claim)
        }
    }

    private func party(_ customer: Customer) -> Claim.Party {
        Claim.Party(customer, isEstablished: self.customer(customer)?.isEstablished ?? false)
    }
}

/// What became of documents that were recorded.
public struct RecordResult: Hashable, Sendable {
    /// Those that were not stored yet.
    public var new = 0
    /// Those that were stored already, byte for byte.
    public var known = 0
    /// The purchases that stayed another customer's by the claim policy.
    public var kept: Set<ChainKey> = []
    /// Those of ``kept`` that claims moved too often within a day, and when the same claim may succeed.
    public var tooManyClaims: [ChainKey: Timestamp] = [:]
}

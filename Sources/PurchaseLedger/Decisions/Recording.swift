// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Documents to record, and the customer that presents them. All documents of a recording are one statement: their
/// order changes nothing, and the events tell what the documents change together.
struct Recording: Sendable {
    /// The documents in the order of their signing. Undated documents count as signed when they arrived.
    let documents: [Evidence]
    /// The presenting customer; `nil` if the documents come from the App Store.
    var claimant: CustomerID?
    /// Whether the claims of presenting customers may change the owner of a purchase only a few times a day.
    var limitsClaims = false
    /// Whether the claim is a correction (``Ledger/move(_:to:_:at:)``): the claimant becomes the only owner, whatever
    /// the claim policy.
    var corrects = false
    /// Whether the documents are a past history, read at the App Store.
    var isBackfill = false
    /// The root certificates of the documents, without those known to be noted in the ledger (``RootsNote``); `nil` if
    /// none are left.
    var unnoted: UnnotedRoots?
    /// The wordings of the documents (their content without the signing date), by the names of the documents. Only
    /// signed transactions, renewal infos and documents about the app's purchase alone have a wording.
    let wordings: [Provenance: Wording]
    /// The transactions in the documents.
    private let transactions: Set<TransactionKey>

    init(
        documents: [Evidence], claimant: CustomerID? = nil, limitsClaims: Bool = false, corrects: Bool = false,
        isBackfill: Bool = false, unnoted: UnnotedRoots? = nil
    ) {
        self.documents = documents.sorted {
            ($0.signedDate ?? .distantFuture, $0.provenance) < ($1.signedDate ?? .distantFuture, $1.provenance)
        }
        self.claimant = claimant
        self.limitsClaims = limitsClaims
        self.corrects = corrects
        self.isBackfill = isBackfill
        self.unnoted = unnoted
        transactions = Set(
            documents.flatMap { document in
                document.statements.map { TransactionKey($0.transactionId, in: document.scope) }
            })
        let wordings = documents.compactMap { document in document.wording.map { (document.provenance, $0) } }
        self.wordings = Dictionary(wordings) { first, _ in first }
    }

    /// The query for the records that the recording is expected to need.
    func query(_ rules: LedgerRules, at now: Timestamp) -> LedgerQuery {
        var query = LedgerQuery([], owners: claimant != nil, arriving: documents.flatMap { $0.parts + [$0] })
        query.keys.formUnion(query.arriving.map { .document($0.provenance) })
        for document in documents {
            let predecessors = document.predecessors.values.map { ChainKey($0, in: document.scope) }
            let own = document.chains(isClaimed: claimant != nil)
            let chains = own + own.compactMap(\.pointer) + predecessors
            query.keys.formUnion(chains.map(LedgerKey.chain))
            let transactions = document.statements.map { TransactionKey($0.transactionId, in: document.scope) }
            query.keys.formUnion(transactions.filter(\.isUnique).map(LedgerKey.transaction))
            query.keys.formUnion(document.accounts.map(LedgerKey.customerID))
            if let wording = wordings[document.provenance] {
                query.keys.formUnion(own.map { .wording(WordingKey(wording, about: $0)) })
            }
            let notices = Notice.unknownProducts(in: document, rules, at: now)
            query.keys.formUnion(notices.map { .record($0.key) })
        }
        query.keys.formUnion([claimant].compactMap(\.self).map(LedgerKey.customerID))
        query.keys.formUnion(unnoted?.records.map(LedgerKey.record) ?? [])
        return query
    }

    /// Whether the documents present a chain: a transaction of theirs counts in it, under whatever original id they
    /// name it, or they name the chain and none of its transactions.
    fileprivate func presents(_ chain: Chain) -> Bool {
        // A receipt has many chains with few transactions each, and a notification one of a chain with many.
        let present =
            transactions.count < chain.transactions.count
            ? transactions.filter { chain.transactions[$0.transactionId]?.key == $0 }
            : Set(chain.transactions.values.map(\.key)).intersection(transactions)
        guard present.isEmpty else { return present.contains { chain.counts($0.transactionId) } }
        return documents.contains { document in
            document.scope == chain.key.scope && document.chains.contains { chain.isNamed($0.name) }
        }
    }
}

/// The result of recording documents.
public struct RecordResult: Hashable, Sendable {
    /// The number of newly stored documents.
    public var new = 0
    /// The number of all other documents. Such a document was already stored, has replaced stored documents with the
    /// same wording, or was not stored. A document is not stored if its content is not new, or if its purchases were
    /// erased after its signing.
    public var known = 0
    /// The purchases refused to the claimant, because of the claim policy or too many claims.
    public var kept: Set<ChainKey> = []
    /// The members of ``kept`` whose owner changed too often within a day, each with the time from which the same claim
    /// may succeed.
    public var tooManyClaims: [ChainKey: Timestamp] = [:]
    /// Notices for the operator (``Notice``), each with the number of its occurrences.
    package var notices: [Notice: Int] = [:]
    /// The members of ``kept`` that have as many owners as customers may share.
    public var tooManyOwners: Set<ChainKey> = []
    /// For each presented purchase that several customers have presented, the number of these customers: the first, and
    /// the others of the last 30 days (see ``Claimants``). At most 16.
    public var claimants: [ChainKey: Int] = [:]
}

extension Evidence {
    /// The wording of a signed transaction, of renewal info, or of a document about the app's purchase alone; `nil` for
    /// other documents.
    package var wording: Wording? {
        if isWithoutPurchases, let app = statements.first { return Wording(app, kind) }
        return jws.flatMap { Wording(kind, payload: $0.payload) }
    }

    /// Merges the document's facts about a chain.
    func merge(into chain: inout Chain) {
        for statement in statements { chain.merge(statement) }
        for renewal in renewals { chain.merge(renewal) }
    }

    /// Whether a chain was erased after the document was signed. True for an erased chain if the document has no
    /// signing date.
    fileprivate func isErased(in record: ChainRecord) -> Bool {
        guard let erasedAt = record.erasedAt else { return false }
        return signedDate.map { $0 <= erasedAt } ?? true
    }
}

extension LedgerDraft {
    /// Records documents with their facts, the owners of their chains, and the resulting events.
    ///
    /// All facts are merged first. Then each chain gets its owners and its events, which tell the state after the last
    /// document. Changes by time that were due before the earliest signing of a document about the chain are published
    /// before.
    mutating func record(_ recording: Recording) -> RecordResult {
        var result = RecordResult()
        if let unnoted = recording.unnoted { note(unnoted) }
        let claimant = recording.claimant.flatMap { findOrAddCustomer($0) }
        if let claimant { establish(claimant) }
        let earliest = recording.documents.first.map(signing) ?? now
        // For each chain with new facts: the last signing of a document about it so far.
        var signings: [ChainKey: Timestamp] = [:]
        for document in recording.documents {
            for key in migrate(document, before: earliest) { signings[key] = signing(document) }
        }
        var new: [Evidence] = []
        for document in recording.documents {
            if take(document, of: recording, &signings, &result) { new.append(document) }
        }
        for (key, signed) in signings.sorted(by: { $0.key < $1.key }) {
            conclude(key, signed, recording, claimant, &result)
        }
        for document in new {
            wantConsumptionAnswer(to: document)
            publishDeclinedRefund(in: document)
        }
        publishPayments(of: recording)
        return result
    }

    /// The time as of which a document counts.
    private func signing(_ document: Evidence) -> Timestamp { min(document.signedDate ?? now, now) }

    /// Stores a document, and merges its facts into its chains.
    ///
    /// - Returns: Whether the document is new and applies to a purchase.
    private mutating func take(
        _ document: Evidence, of recording: Recording, _ signings: inout [ChainKey: Timestamp],
        _ result: inout RecordResult
    ) -> Bool {
        let isClaimed = recording.claimant != nil
        let keys = applicable(document, isClaimed: isClaimed, &signings)
        // If all chains of a document were erased since its signing, the document applies to no chain.
        let isErased = keys.isEmpty && !document.chains(isClaimed: isClaimed).isEmpty
        let wasStored = isStored(document)
        let wording = recording.wordings[document.provenance]
        let displaced = isErased ? nil : documentsDisplaced(by: document, about: keys, wording)
        let isNew = !wasStored && displaced == []
        if isNew { result.new += 1 } else { result.known += 1 }
        // A stored document was recorded when it first arrived, and matters again only if a customer presents it. A
        // document that is not kept because its content is not new also matters only if a customer presents it.
        let isRecorded = !isErased && (isClaimed || !wasStored && displaced != nil)
        if isRecorded { for key in keys { begin(key, document, &signings) } }
        let others = shareTransactions(of: document, among: keys)
        if let displaced {
            store(document, for: Set(keys), wording, displacing: displaced)
        } else if isRecorded, wasStored {
            store(document, for: Set(keys), wording)
        }
        guard isRecorded else { return false }
        if isNew {
            publish(document)
            noticeUnknownProducts(in: document, &result)
        }
        for account in document.accounts { _ = findOrAddCustomer(account) }
        for key in others { begin(key, document, &signings) }
        for key in keys + others {
            var record = record(key)
            document.merge(into: &record.chain)
            put(record)
        }
        return isNew
    }

    /// Publishes the changes of a chain that were due before the first document of a recording about it was signed.
    private mutating func begin(_ key: ChainKey, _ document: Evidence, _ signings: inout [ChainKey: Timestamp]) {
        let signed = signing(document)
        guard signings.updateValue(signed, forKey: key) == nil else { return }
        var record = record(key)
        publishDue(&record, before: signed)
        put(record)
    }

    /// Links the owners of a chain, and publishes its changes, after all documents of a recording were merged.
    ///
    /// - Parameter signed: The last signing of a document about the chain.
    private mutating func conclude(
        _ key: ChainKey, _ signed: Timestamp, _ recording: Recording, _ claimant: Customer?,
        _ result: inout RecordResult
    ) {
        var record = record(key)
        // Owners are linked first, so that a change is published to the new owner.
        linkByToken(&record)
        if recording.corrects, !key.isSharedAppPurchase, let id = recording.claimant {
            move(&record, to: [id])
        } else if let claimant, recording.presents(record.chain) {
            claim(&record, for: claimant, isLimited: recording.limitsClaims, &result)
        }
        // If a change became due between the last signing and now, the documents are published as of the instant before
        // the change, and the change follows as of its own instant.
        if let due = record.report?.nextChange, signed < due, due <= now {
            publish(&record, asOf: Timestamp(milliseconds: due.milliseconds - 1), effectiveAt: signed)
            publishDue(&record)
        } else {
            publish(&record, asOf: now, effectiveAt: signed)
        }
        put(record)
        pointToNewest(key)
    }

    /// The chains to which a document still applies. Chains erased after the signing are excluded, unless a customer
    /// presents the document. Of the document's facts about excluded chains, only the residue (``Chain/residue``) is
    /// kept.
    private mutating func applicable(
        _ document: Evidence, isClaimed: Bool, _ signings: inout [ChainKey: Timestamp]
    ) -> [ChainKey] {
        var keys: [ChainKey] = []
        var known: Set<ChainKey> = []
        for named in document.chains(isClaimed: isClaimed) {
            var present = record(named)
            let key = resolved(present)
            let earlier = document.predecessors[named.name].map {
                record(ChainKey($0, in: named.scope))
            }
            if !isClaimed, document.isErased(in: present) || earlier.map(document.isErased) ?? false {
                keepResidue(of: document, in: key, &signings)
                continue
            }
            // A newer or presented document restores the chain.
            if present.erasedAt != nil {
                present.erasedAt = nil
                put(present)
            }
            if known.insert(key).inserted { keys.append(key) }
        }
        return keys
    }

    /// Merges a document into the residue of a chain that was erased after the document was signed, and into the
    /// residue of all other chains with the same transactions. It must still count if a customer presents the purchase
    /// again.
    private mutating func keepResidue(
        of document: Evidence, in key: ChainKey, _ signings: inout [ChainKey: Timestamp]
    ) {
        let erased = record(key).chain
        for statement in document.statements where erased.isNamed(statement.chainName) {
            let id = statement.transactionId
            let sharing = chains(of: TransactionKey(id, in: key.scope)).map(\.key)
            for key in Set(sharing + [key]).sorted() {
                begin(key, document, &signings)
                var record = record(key)
                record.chain.mergeResidue(statement)
                put(record)
            }
        }
    }

    /// Gives the chains that a document names what other chains know about its transactions; see ``Chain/counts(_:)``.
    ///
    /// - Returns: The other chains that have transactions of the document.
    private mutating func shareTransactions(of document: Evidence, among keys: [ChainKey]) -> [ChainKey] {
        var others: Set<ChainKey> = []
        for statement in document.statements {
            let id = statement.transactionId
            let known = chains(of: TransactionKey(id, in: document.scope))
            guard !known.isEmpty else { continue }
            let named = resolved(ChainKey(statement.chainName, in: document.scope))
            let sharing = known.filter { $0.key != named }
            guard !sharing.isEmpty, keys.contains(named) else { continue }
            others.formUnion(sharing.filter { $0.chain.transactions[id] != nil }.map(\.key))
            var record = record(named)
            takeOver(statement, in: &record, from: sharing)
            let isNew = record.chain.transactions[id] == nil
            for other in sharing {
                let known = other.chain.transactions[id]?.statements ?? []
                for statement in known { record.chain.take(statement) }
                // A customer who claimed the other chain may have used a consumable that counted there until now.
                let isUsed =
                    other.chain.counts(id) && known.contains { $0.type == .consumable }
                    && other.owners.contains { $0.reason.isDecided && !record.isOwned(by: $0.customer) }
                // After an erasure, a refund under one id must not be dodged with another.
                let residue = isNew ? other.chain.residue[id]?.statements ?? [] : []
                for statement in residue + (isUsed ? known : []) { record.chain.mergeResidue(statement) }
            }
            put(record)
        }
        others.subtract(keys)
        return others.sorted()
    }

    /// Gives a chain the owners, the correction and the denial of the chain in which a transaction has counted, if a
    /// statement makes it count here, and nothing else does: it is the same purchase under another original id. A
    /// correction lasts beside other purchases too.
    private mutating func takeOver(
        _ statement: TransactionStatement, in record: inout ChainRecord, from sharing: [ChainRecord]
    ) {
        let id = statement.transactionId
        let isEmpty = !record.chain.transactions.keys.contains { record.chain.counts($0) }
        // An erased chain has only the marks of the operator.
        let last = sharing.first { $0.chain.counts(id) }
        let erased = sharing.first { $0.chain.transactions.isEmpty && ($0.isCorrected || $0.chain.denial != nil) }
        guard let other = last ?? (record.chain.transactions.isEmpty ? erased : nil),
            isEmpty || other.isCorrected && !record.isCorrected
        else { return }
        var chain = record.chain
        chain.merge(statement)
        for known in other.chain.transactions[id]?.statements ?? [] { chain.take(known) }
        guard chain.counts(id) else { return }
        for owner in record.owners where !other.isOwned(by: owner.customer) { unlink(&record, from: owner.customer) }
        for owner in other.owners { link(&record, to: owner.customer, owner.reason) }
        record.owners = other.owners
        record.isCorrected = other.isCorrected
        if isEmpty { record.chain.denial = other.chain.denial }
    }

    private mutating func noticeUnknownProducts(in document: Evidence, _ result: inout RecordResult) {
        for notice in Notice.unknownProducts(in: document, rules, at: now) {
            store(notice)
            result.notices[notice, default: 0] += 1
        }
    }

    /// Publishes an event for a notification of which no other event tells, so that consumers see the notification.
    private mutating func publish(_ document: Evidence) {
        guard let content = EventContent(document, at: now) else { return }
        changes.events.append(LedgerEvent(.notificationReceived, in: document.scope, at: now, content))
    }
}

// MARK: - Owners

extension LedgerDraft {
    /// Makes the customer named in the documents' account token the owner of a chain, unless a claim or a correction
    /// has decided its owner. Without a token nothing changes.
    private mutating func linkByToken(_ record: inout ChainRecord) {
        // An accepted claim takes precedence over a token.
        guard !record.isCorrected, !record.owners.contains(where: \.reason.isDecided) else { return }
        guard let customer = record.chain.account.flatMap({ findOrAddCustomer($0) }),
            record.owners.map(\.customer) != [customer]
        else { return }
        for owner in record.owners where owner.customer != customer { unlink(&record, from: owner.customer) }
        link(&record, to: customer, Open(.appAccountToken))
    }

    private mutating func claim(
        _ record: inout ChainRecord, for claimant: Customer, isLimited: Bool, _ result: inout RecordResult
    ) {
        let key = record.key
        let isShared = key.isSharedAppPurchase
        let claim = Claim(
            policy: isShared ? .share : rules.claimPolicy, claimant: claimant,
            owners: record.owners.map { party($0.customer) },
            account: record.chain.account.flatMap { customer($0) }.map { party($0.customer) },
            isEntitling: record.chain.isEntitling(rules.catalogue(key.scope), at: now),
            isFirst: record.claimants.first == claimant.number,
            isCorrected: record.isCorrected,
            mostOwners: isShared ? Claim.mostSharers : .max)
        record.claimants.note(claimant.number, besides: claim.holder?.number, at: now)
        let count = record.claimants.count(at: now)
        if count > 1 { result.claimants[key] = count }
        if count > Claimants.mostUsual {
            let notice = Notice(.contestedPurchase, key.name, in: key.scope)
            store(notice)
            result.notices[notice, default: 0] += 1
        }
        switch claim.outcome {
        case .unchanged: return
        case .refused:
            result.kept.insert(key)
            if claim.owners.count >= claim.mostOwners { result.tooManyOwners.insert(key) }
        case .accepted(let losers):
            if claim.changesOwner {
                var changes = OwnerChanges(record.ownerChanges)
                // Nobody loses what several may share.
                if isLimited, claim.isLimited, !isShared, let retryAt = changes.nextAllowed(at: now) {
                    result.kept.insert(key)
                    result.tooManyClaims[key] = retryAt
                    return
                }
                changes.add(now)
                record.ownerChanges = changes.times
            }
            // A claim without limits comes from the app's backend, and counts more than claims from devices.
            if !isLimited, claim.takesFromEstablished, !losers.isEmpty {
                record.claimants.makeFirst(claimant.number, at: now)
            }
            for loser in losers { unlink(&record, from: loser) }
            link(&record, to: claimant, Open(.claim))
        }
    }

    private func party(_ customer: Customer) -> Claim.Party {
        Claim.Party(customer, isEstablished: self.customer(customer)?.isEstablished ?? false)
    }
}

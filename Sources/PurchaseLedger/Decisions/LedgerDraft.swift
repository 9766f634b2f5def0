// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The work of a decision (``LedgerDecider``) in progress: the loaded records with the changes decided so far.
///
/// A draft is a value without storage or clock. If a decision needs a record outside its snapshot, the draft notes the
/// record's key and continues as if the record did not exist. ``decision(_:)`` then asks for the record, and the whole
/// decision is made again.
struct LedgerDraft {
    let rules: LedgerRules
    let now: Timestamp
    /// The time by which the ids of former customers go; see ``Ledger/wall``.
    let wall: Timestamp
    let loaded: LedgerSnapshot
    /// ``loaded`` with the changes decided so far.
    private var state: LedgerSnapshot
    /// The decided changes, except changes of chains (see ``Chain``), customers and records: ``decision(_:)`` finds
    /// these by comparing ``state`` with ``loaded``.
    var changes = LedgerChanges()
    /// The author and the reason of the decision if it corrects the ledger, for the decision's events.
    var correction: Correction?
    /// Whom the operation of the decision concerns, if it counts as a change even if the ledger stays as it is; see
    /// ``add(_:)``.
    var noted: [Customer]?
    /// The error with which the decision is refused; `nil` if the decision is not refused.
    var refusal: (any Error)?
    private var missing: Set<LedgerKey> = []
    /// The chains by the ids of their transactions, if there are more than ``fewChains``. A receipt may have thousands.
    private var chainsOfTransactions: [String: Set<ChainKey>] = [:]
    /// As many chains are searched one by one, which costs less than to note all transactions of one long chain.
    private static let fewChains = 16
    /// The histories of the published chains.
    private(set) var histories: [ChainKey: PurchaseHistory] = [:]

    init(_ snapshot: LedgerSnapshot, _ rules: LedgerRules, at now: Timestamp, wall: Timestamp) {
        loaded = snapshot
        state = snapshot
        self.rules = rules
        self.now = now
        self.wall = wall
    }

    /// The decision: the changes to commit, or a query of records to load first.
    ///
    /// - Throws: ``refusal``, ``RecordSizeError``.
    func decision<Output: Sendable>(_ output: Output) throws -> LedgerDecision<Output> {
        guard missing.isEmpty else { return .load(LedgerQuery(missing)) }
        if let refusal { throw refusal }
        let changes = decided
        for record in changes.records { try record.requireSize() }
        return .commit(changes, output)
    }

    /// All changes decided so far.
    var decided: LedgerChanges {
        var changes = changes
        changes.chains = state.chains.values.filter { $0 != loaded.chains[$0.key] }
        changes.customers = state.customers.values.filter { $0 != loaded.customers[$0.customer] }
        changes.erasedCustomers = Set(loaded.customers.keys.filter { state.customers[$0] == nil })
        changes.records = state.records.values.filter { $0 != loaded.records[$0.key] }
        changes.erasedRecords.subtract(state.records.keys)
        return changes
    }

    /// Whether the draft stores a record already due (``LedgerRecord/dueAt``), such as a job to be done at once.
    var leavesDue: Bool { state.records.values.contains { $0.isDue(at: now) && $0 != loaded.records[$0.key] } }

    /// Notes that the decision needs the value of a key, unless it was loaded.
    private mutating func look(up key: LedgerKey) {
        if !loaded.query.keys.contains(key) { missing.insert(key) }
    }
}

// MARK: - Documents

extension LedgerDraft {
    /// The documents that are evidence for a chain.
    mutating func evidence(_ key: ChainKey) -> [DocumentReference] {
        look(up: .evidence(key))
        return loaded.evidence[key] ?? []
    }

    func isStored(_ document: Evidence) -> Bool { state.names.contains(document.provenance) }

    /// The stored documents about a chain that have a given ``Wording``.
    mutating func documents(_ key: WordingKey) -> [WordedDocument] {
        look(up: .wording(key))
        return state.wordings[key] ?? []
    }

    /// Stores a document as evidence for some of its chains. The signed parts of a notification are stored before the
    /// notification.
    ///
    /// - Parameters:
    ///   - wording: The document's wording, if the document arrived on its own.
    ///   - displaced: The documents to replace.
    mutating func store(
        _ document: Evidence, for keys: Set<ChainKey>, _ wording: Wording? = nil,
        displacing displaced: [Provenance] = []
    ) {
        for part in document.parts {
            let isAboutAll = part.chains == document.chains
            store(part, for: isAboutAll ? keys : keys.intersection(part.chains.map { resolved($0) }))
        }
        let new = NewDocument(document, for: keys, receivedAt: now, wording: wording)
        state.note([new], displacing: Set(displaced))
        changes.add(new, displacing: displaced)
    }

    /// The documents of the old chain become evidence for the new chain instead.
    mutating func moveEvidence(from old: ChainKey, to new: ChainKey) {
        for (key, target) in changes.movedEvidence where target == old { changes.movedEvidence[key] = new }
        changes.movedEvidence[old] = new
    }
}

// MARK: - Chains

extension LedgerDraft {
    /// The record of a chain; an empty record if the chain is new.
    mutating func record(_ key: ChainKey) -> ChainRecord {
        if let record = state.chains[key] { return record }
        look(up: .chain(key))
        return ChainRecord(key)
    }

    mutating func put(_ record: ChainRecord) {
        let old = state.chains.updateValue(record, forKey: record.key)?.chain
        let count = (old?.transactions.count, old?.residue.count)
        guard !chainsOfTransactions.isEmpty, count != (record.chain.transactions.count, record.chain.residue.count)
        else { return }
        note(record)
    }

    /// Notes which transactions a chain has.
    private mutating func note(_ record: ChainRecord) {
        for id in record.chain.transactions.keys { chainsOfTransactions[id, default: []].insert(record.key) }
        for id in record.chain.residue.keys { chainsOfTransactions[id, default: []].insert(record.key) }
    }

    /// The chains that have a transaction, or residue of it (``Chain/residue``), in the order of their keys. Empty if
    /// several purchases may have the id.
    mutating func chains(of key: TransactionKey) -> [ChainRecord] {
        guard key.isUnique else { return [] }
        look(up: .transaction(key))
        guard state.chains.count > Self.fewChains else {
            return state.chains.values.filter { $0.chain.knows(key) }.sorted { $0.key < $1.key }
        }
        if chainsOfTransactions.isEmpty { for record in state.chains.values { note(record) } }
        let chains = chainsOfTransactions[key.transactionId] ?? []
        return chains.sorted().compactMap { state.chains[$0] }.filter { $0.chain.knows(key) }
    }

    /// The loaded chains that a customer owns, ordered by key.
    func chains(of customer: Customer) -> [ChainRecord] { state.chains(of: customer) }

    /// All chains that the customer with an id owns, in all environments, ordered by key.
    mutating func chains(of id: CustomerID) -> [ChainRecord] {
        for environment in Environment.allCases { look(up: .holdings(id, environment)) }
        return state.customer(id).map { chains(of: $0.customer) } ?? []
    }

    /// Replaces the record of a chain by a record that keeps only the time of the erasure, the residue
    /// (``Chain/residue``), the earlier names, the denial, whether it was corrected, and the time of the last event.
    ///
    /// - Parameter instant: The time of the erasure. If the chain has a document with a later signing date, because the
    ///   clock is behind, this date is used instead. Otherwise a repeated delivery of the document would restore the
    ///   chain.
    mutating func erase(_ record: ChainRecord, asOf instant: Timestamp) {
        var erased = ChainRecord(record.key)
        erased.chain.residue = record.chain.residueOfErasure
        erased.chain.predecessors = record.chain.predecessors
        erased.chain.denial = record.chain.denial
        erased.isCorrected = record.isCorrected
        let instant = evidence(record.key).map(\.name.signedDate).reduce(instant, max)
        erased.erasedAt = instant
        erased.lastEventAt = record.lastEventAt
        put(erased)
        changes.erasedChains.insert(record.key)
        eraseConsumptionJobs(of: record)
        for name in record.chain.predecessors {
            var earlier = self.record(ChainKey(name, in: record.key.scope))
            earlier.erasedAt = instant
            put(earlier)
        }
    }

    /// Leaves the facts of erased chains as residue in the other chains that have the same transactions. The residue
    /// shows later that some facts there have no document any more.
    mutating func leaveResidue(of erased: [ChainRecord]) {
        var facts: [TransactionKey: [TransactionStatement]] = [:]
        for fact in erased.flatMap(\.chain.transactions.values) where fact.key.isUnique {
            look(up: .transaction(fact.key))
            facts[fact.key, default: []] += fact.statements
        }
        for var record in state.chains.values {
            let shared = record.chain.transactions.values.flatMap { facts[$0.key] ?? [] }
            guard !shared.isEmpty else { continue }
            for statement in shared { record.chain.mergeResidue(statement) }
            put(record)
        }
    }
}

// MARK: - Customers

extension LedgerDraft {
    /// The customer with an id; `nil` if there is none.
    mutating func customer(_ id: CustomerID) -> CustomerRecord? {
        look(up: .customerID(id))
        return state.customer(id)
    }

    func customer(_ customer: Customer) -> CustomerRecord? { state.customers[customer] }

    /// The customer with an id. If no customer has the id, adds a new customer. `nil` if the id was not loaded.
    mutating func findOrAddCustomer(_ id: CustomerID) -> Customer? {
        if let known = customer(id) { return known.customer }
        guard let number = loaded.newNumbers[id] else { return nil }
        let record = CustomerRecord(Customer(number: number, bundleId: id.bundleId), ids: [id.id])
        put(record)
        return record.customer
    }

    mutating func put(_ record: CustomerRecord) {
        for id in state.customers[record.customer]?.ids ?? [] {
            state.ids[CustomerID(id, of: record.customer.bundleId)] = nil
        }
        state.customers[record.customer] = record
        for id in record.ids { state.ids[CustomerID(id, of: record.customer.bundleId)] = record.customer }
    }

    mutating func remove(_ record: CustomerRecord) {
        state.customers[record.customer] = nil
        for id in record.ids { state.ids[CustomerID(id, of: record.customer.bundleId)] = nil }
    }

    /// Notes that a customer exists in its own right; see ``CustomerRecord/isEstablished``.
    mutating func establish(_ customer: Customer) {
        guard var record = state.customers[customer], !record.isEstablished else { return }
        record.isEstablished = true
        put(record)
    }

    /// Makes a customer an owner of a chain.
    mutating func link(_ record: inout ChainRecord, to customer: Customer, _ reason: Open<LinkReason>) {
        guard !record.isOwned(by: customer) else { return }
        record.owners.append(ChainRecord.Owner(customer, reason))
        if reason == .correction { record.isCorrected = true }
        if withdraw(.unlinked, customer, of: record.key) { return }
        var content = EventContent(about: record, at: now, detail: reason.rawValue)
        content.after = record.report?.state
        content.entitlementsBefore = GivenEntitlements.empty
        content.entitlementsAfter = record.report.map(\.entitlements) ?? GivenEntitlements.empty
        append(.linked, content, to: customer, about: &record)
    }

    /// Removes a customer from the owners of a chain.
    mutating func unlink(_ record: inout ChainRecord, from customer: Customer) {
        guard record.isOwned(by: customer) else { return }
        record.owners.removeAll { $0.customer == customer }
        if withdraw(.linked, customer, of: record.key) { return }
        let detail = correction.map { _ in LinkReason.correction.rawValue }
        var content = EventContent(about: record, at: now, detail: detail)
        content.before = record.report?.state
        content.entitlementsBefore = record.report?.entitlements
        content.entitlementsAfter = GivenEntitlements.empty
        append(.unlinked, content, to: customer, about: &record)
    }

    /// Removes the opposite of a change of owner that the decision made before: together they changed nothing.
    private mutating func withdraw(_ kind: LedgerEvent.Kind, _ customer: Customer, of key: ChainKey) -> Bool {
        let wasOwner = loaded.chains[key]?.isOwned(by: customer) ?? false
        guard wasOwner == (kind == .unlinked),
            let index = changes.events.lastIndex(where: {
                $0.kind == kind && $0.customer == customer && $0.chainName == key.name && $0.scope == key.scope
            })
        else { return false }
        changes.events.remove(at: index)
        return true
    }
}

// MARK: - Records

extension LedgerDraft {
    /// A record with the changes decided so far; `nil` if there is none.
    mutating func record(_ key: RecordKey) -> LedgerRecord? {
        look(up: .record(key))
        return state.records[key]
    }

    /// The value in a record; `nil` if there is no record.
    ///
    /// - Throws: `LedgerStorageError.damaged` if the record cannot be read.
    mutating func value<Value: RecordValue>(
        _ key: RecordKey, as _: Value.Type = Value.self
    ) throws(LedgerStorageError) -> Value? {
        guard let record = record(key) else { return nil }
        return try Value(record)
    }

    mutating func put(_ value: some RecordValue) { put(value.record) }

    /// Stores a job with the payload from `payload`. If `payload` throws, no part of the decision is committed.
    mutating func put(_ job: Job, payload: () throws -> [UInt8]) {
        var job = job
        do {
            job.payload = try payload()
            put(job)
        } catch {
            refusal = error
        }
    }

    mutating func put(_ record: LedgerRecord) { state.records[record.key] = record }

    mutating func erase(_ key: RecordKey) {
        state.records[key] = nil
        changes.erasedRecords.insert(key)
    }

    /// A job with the changes decided so far; `nil` if there is no readable job. A newly stored job replaces an
    /// unreadable job.
    mutating func job(_ id: Job.ID) -> Job? {
        Job(readable: record(id.key))
    }
}

// MARK: - Events

extension LedgerDraft {
    /// Publishes an event about a chain. The times of a chain's events never decrease, even if the clock goes back.
    mutating func append(
        _ kind: LedgerEvent.Kind, _ content: EventContent, to customer: Customer?, about record: inout ChainRecord
    ) {
        let recordedAt = max(now, record.lastEventAt ?? now)
        record.lastEventAt = recordedAt
        var content = content
        content.correction = correction
        changes.events.append(
            LedgerEvent(
                kind, in: record.key.scope, at: recordedAt, customer: customer, chainName: record.key.name, content))
    }

    /// Publishes an event about a chain once per owner, or once if the chain has no owner.
    mutating func append(
        _ kind: LedgerEvent.Kind, _ content: EventContent, toOwnersOf record: inout ChainRecord
    ) {
        guard !record.owners.isEmpty else { return append(kind, content, to: nil, about: &record) }
        for owner in record.owners { append(kind, content, to: owner.customer, about: &record) }
    }

    /// Publishes an event about a customer as such, or about all customers of an app.
    mutating func append(
        _ kind: LedgerEvent.Kind, about customer: Customer?, in scope: LedgerScope,
        _ add: (inout EventContent) -> Void = { _ in }
    ) {
        var content = EventContent(effectiveAt: now)
        content.correction = correction
        add(&content)
        changes.events.append(LedgerEvent(kind, in: scope, at: now, customer: customer, content))
    }

    /// Evaluates a chain, and publishes its differences from the last published report.
    ///
    /// - Parameters:
    ///   - instant: The instant at which the chain is evaluated.
    ///   - effectiveAt: The time at which the change took effect.
    mutating func publish(_ record: inout ChainRecord, asOf instant: Timestamp, effectiveAt: Timestamp) {
        // A chain with renewal info alone has no purchase, so there is no state to publish, and no change to wait for.
        guard !record.chain.transactions.isEmpty else {
            record.report?.nextChange = nil
            record.report?.asOf = nil
            return
        }
        let old = record.report
        let new = ChainEvaluation(record.chain, rules.catalogue(record.key.scope), at: instant)
        record.report = new.report
        record.settlement = new.settlement
        histories[record.key] = new.history
        if new.report.state.status != old?.state.status { wantStatus(of: record, since: instant) }
        for change in new.report.changes(since: old, record.chain) {
            append(
                change.kind, EventContent(change, from: old, to: new, at: effectiveAt), toOwnersOf: &record)
        }
    }

    /// Publishes the differences between a chain's present state and its last published report.
    mutating func publishNow(_ key: ChainKey) {
        var record = record(key)
        publish(&record, asOf: now, effectiveAt: now)
        put(record)
    }

    /// The same as ``publishDue(_:before:)``, for the chain with a key. Does nothing if the chain was not loaded.
    mutating func publishDue(_ key: ChainKey) {
        guard var record = state.chains[key] else { return }
        publishDue(&record)
        put(record)
    }

    /// Publishes the due changes of a chain in order. If changes were published too early because a clock was ahead,
    /// publishes the present state first.
    ///
    /// - Parameter end: The end of the published changes. Changes at or after this instant are left out.
    mutating func publishDue(_ record: inout ChainRecord, before end: Timestamp = .distantFuture) {
        publishCorrection(&record)
        guard let due = record.report?.nextChange, due <= now else { return }
        noteCatalogue(of: record)
        while let instant = record.report?.nextChange, instant <= now, instant < end {
            publish(&record, asOf: instant, effectiveAt: instant)
            // Guards against an endless loop: each `nextChange` must be later than the last.
            if let next = record.report?.nextChange, next <= instant { record.report?.nextChange = nil }
        }
    }

    /// Publishes a correction if the report of a chain was made by a clock that was ahead. The correction is an update
    /// event, because no purchase, payment or cancellation took place.
    private mutating func publishCorrection(_ record: inout ChainRecord) {
        guard let old = record.report, old.isAhead(of: now), !record.chain.transactions.isEmpty else { return }
        let new = ChainEvaluation(record.chain, rules.catalogue(record.key.scope), at: now)
        record.report = new.report
        record.settlement = new.settlement
        guard new.report.differs(from: old) || new.report.isEntitling != old.isEntitling else { return }
        let change = new.report.change(new.report.isSubscription ? .subscriptionUpdated : .purchaseUpdated)
        append(change.kind, EventContent(change, from: old, to: new, at: now), toOwnersOf: &record)
    }

    /// If the app of a chain has no catalogue, stores an empty ``CatalogueDigest``, in place of the digest of an
    /// earlier catalogue if there is one. The app's chains are then evaluated again once the app has a catalogue, even
    /// if it is the earlier catalogue.
    mutating func noteCatalogue(of record: ChainRecord) {
        let none = CatalogueDigest([], of: record.key.scope.bundleId)
        if rules.catalogues[none.bundleId] == nil, self.record(none.record.key) != none.record { put(none) }
    }
}

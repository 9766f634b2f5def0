// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// A decision in the making: the records that were loaded, as they are with what was decided so far. A value without storage or
/// clock, so that every rule is tested by itself.
struct LedgerDraft {
    let rules: LedgerRules
    let now: Timestamp
    private let loaded: LedgerSnapshot
    private var chains: [ChainKey: ChainRecord]
    private var customers: [Customer: CustomerRecord]
    private var ids: [CustomerID: Customer]
    private var names: Set<Provenance>
    private var erasedChains: Set<ChainKey> = []
    private var movedEvidence: [ChainKey: ChainKey] = [:]
    private var documents: [NewDocument] = []
    private var events: [LedgerEvent] = []
    /// Apps of which chains were evaluated although they have no catalogue.
    private var uncatalogued: Set<String> = []
    /// What has to be loaded before this can be decided.
    private(set) var missing = LedgerQuery()

    private init(_ snapshot: LedgerSnapshot, _ rules: LedgerRules, at now: Timestamp) {
        loaded = snapshot
        self.rules = rules
        self.now = now
        (chains, customers, ids, names) = (snapshot.chains, snapshot.customers, snapshot.ids, snapshot.names)
    }

    /// Decides by what `body` does to a draft.
    static func decide<Output: Sendable>(
        _ snapshot: LedgerSnapshot, _ rules: LedgerRules, at now: Timestamp, _ body: (inout LedgerDraft) -> Output
    ) -> LedgerDecision<Output> {
        var draft = LedgerDraft(snapshot, rules, at: now)
        let output = body(&draft)
        return draft.decision(output)
    }

    /// The decision: what changed, or what has to be loaded first.
    private func decision<Output: Sendable>(_ output: Output) -> LedgerDecision<Output> {
        guard missing == LedgerQuery() else { return .load(missing) }
        var changes = LedgerChanges()
        changes.documents = documents
        changes.chains = chains.values.filter { $0 != loaded.chains[$0.key] }
        changes.customers = customers.values.filter { $0 != loaded.customers[$0.customer] }
        changes.erasedCustomers = Set(loaded.customers.keys).subtracting(customers.keys)
        changes.movedEvidence = movedEvidence
        changes.erasedChains = erasedChains
        changes.events = events
        for bundleId in uncatalogued { changes.catalogues[bundleId] = [] }
        return .commit(changes, output)
    }
}

// MARK: - Documents

extension LedgerDraft {
    /// The documents that are evidence for a chain.
    func evidence(_ key: ChainKey) -> [DocumentReference] { loaded.evidence[key] ?? [] }

    func isStored(_ document: Evidence) -> Bool { names.contains(document.provenance) }

    /// Stores a document, after the tokens in it, as evidence for some of its chains.
    mutating func store(_ document: Evidence, for keys: Set<ChainKey>) {
        for part in document.parts where !isStored(part) {
            store(part, for: keys.intersection(part.chains.map { resolved($0) }))
        }
        names.insert(document.provenance)
        documents.append(NewDocument(document, for: keys, receivedAt: now))
    }
}

// MARK: - Chains

extension LedgerDraft {
    /// What is known of a chain: nothing, if it is new.
    func record(_ key: ChainKey) -> ChainRecord { chains[key] ?? ChainRecord(key) }

    mutating func put(_ record: ChainRecord) { chains[record.key] = record }

    /// As ``record(_:)``. A chain that was not asked for is loaded before this is decided.
    mutating func loadedRecord(_ key: ChainKey) -> ChainRecord {
        if chains[key] == nil, !loaded.query.chains.contains(key) { missing.chains.insert(key) }
        return record(key)
    }

    /// Documents that are evidence for one chain are evidence for another one from now on.
    mutating func moveEvidence(from old: ChainKey, to new: ChainKey) {
        for (key, target) in movedEvidence where target == old { movedEvidence[key] = new }
        movedEvidence[old] = new
    }

    /// The chains of a customer that were loaded, in the order of their ids.
    func chains(of customer: Customer) -> [ChainRecord] {
        chains.values.filter { $0.isOwned(by: customer) }.sorted { $0.key < $1.key }
    }

    /// Leaves nothing of a chain but a tombstone, and what must stay true.
    mutating func erase(_ record: ChainRecord) {
        var erased = ChainRecord(record.key)
        erased.chain.residue = record.chain.residueOfErasure
        erased.chain.predecessors = record.chain.predecessors
        erased.erasedAt = now
        erased.lastEventAt = record.lastEventAt
        put(erased)
        erasedChains.insert(record.key)
        for name in record.chain.predecessors {
            var earlier = loadedRecord(ChainKey(name, in: record.key.scope))
            earlier.erasedAt = now
            put(earlier)
        }
    }
}

// MARK: - Customers

extension LedgerDraft {
    /// The customer who has an id; `nil` if there is none, or if it was not asked for.
    func customer(_ id: CustomerID) -> CustomerRecord? { ids[id].flatMap { customers[$0] } }

    /// As ``customer(_:)-(CustomerID)``. An id that was not asked for is loaded before this is decided.
    mutating func loadedCustomer(_ id: CustomerID) -> CustomerRecord? {
        if !loaded.query.customers.contains(id) { missing.customers.insert(id) }
        return customer(id)
    }

    func customer(_ customer: Customer) -> CustomerRecord? { customers[customer] }

    /// The customer who has an id, a new one if there is none; `nil` if it was not loaded.
    mutating func addedCustomer(_ id: CustomerID) -> CustomerRecord? {
        if let known = loadedCustomer(id) { return known }
        guard let number = loaded.newNumbers[id] else { return nil }
        let record = CustomerRecord(Customer(number: number, bundleId: id.bundleId), ids: [id.id])
        put(record)
        return record
    }

    mutating func put(_ record: CustomerRecord) {
        customers[record.customer] = record
        for id in record.ids { ids[CustomerID(id, of: record.customer.bundleId)] = record.customer }
    }

    mutating func remove(_ record: CustomerRecord) {
        customers[record.customer] = nil
        for id in record.ids { ids[CustomerID(id, of: record.customer.bundleId)] = nil }
    }

    /// Notes that a customer exists in its own right.
    mutating func establish(_ customer: Customer) {
        guard var record = customers[customer], !record.isEstablished else { return }
        record.isEstablished = true
        put(record)
    }
}

// MARK: - Events

extension LedgerDraft {
    /// Notes that the answer about a chain has to be evaluated again if its app gets a catalogue.
    mutating func noteCatalogue(of record: ChainRecord) {
        let bundleId = record.key.scope.bundleId
        if rules.catalogues[bundleId] == nil { uncatalogued.insert(bundleId) }
    }

    mutating func append(_ event: LedgerEvent) { events.append(event) }

    /// Publishes something about a chain. Events of one chain never go back in time, whatever the clock does.
    mutating func append(_ event: LedgerEvent, about record: inout ChainRecord) {
        var event = event
        event.recordedAt = max(now, record.lastEventAt ?? now)
        event.originalTransactionId = record.key.originalTransactionId
        record.lastEventAt = event.recordedAt
        events.append(event)
    }

    /// Makes a customer an owner of a chain.
    mutating func link(_ record: inout ChainRecord, to customer: Customer, _ reason: LinkReason) {
        guard !record.isOwned(by: customer) else { return }
        record.owners.append(ChainRecord.Owner(customer, reason))
        var event = LedgerEvent(.linked, in: record.key.scope, at: now, customer: customer, detail: reason.rawValue)
        event.after = record.report?.state
        append(event, about: &record)
    }

    /// Takes a chain from a customer.
    mutating func unlink(_ record: inout ChainRecord, from customer: Customer) {
        guard record.isOwned(by: customer) else { return }
        record.owners.removeAll { $0.customer == customer }
        var event = LedgerEvent(.unlinked, in: record.key.scope, at: now, customer: customer)
        event.before = record.report?.state
        append(event, about: &record)
    }

    /// Publishes how a chain differs from what was published last.
    ///
    /// - Parameters:
    ///   - instant: The instant as of which it is evaluated.
    ///   - effectiveAt: When the change took effect.
    mutating func publish(_ record: inout ChainRecord, asOf instant: Timestamp, effectiveAt: Timestamp) {
        // Renewal info alone says of no purchase what it is.
        guard !record.chain.transactions.isEmpty else {
            // There is nothing to say about it yet, or any more, and no reason to look again.
            record.report?.nextChange = nil
            return
        }
        let old = record.report
        let new = ChainReport(record.chain, rules.catalogue(record.key.scope), at: instant)
        record.report = new
        for change in new.changes(since: old, record.chain) {
            var event = LedgerEvent(change.kind, in: record.key.scope, at: now)
            event.effectiveAt = effectiveAt
            (event.transactionId, event.productId) = (change.transactionId, change.productId)
            (event.before, event.after) = (old?.state, new.state)
            for owner in record.owners.isEmpty ? [nil] : record.owners.map({ Optional($0.customer) }) {
                event.customer = owner
                append(event, about: &record)
            }
        }
    }

    mutating func publishDue(_ key: ChainKey) {
        guard var record = chains[key] else { return }
        publishDue(&record)
        put(record)
    }

    /// Publishes, one after another, the changes that time brought to a chain up to now.
    ///
    /// - Parameter end: If there is one, only those before it.
    mutating func publishDue(_ record: inout ChainRecord, before end: Timestamp = .distantFuture) {
        // The catalogue that is configured later must find that this was evaluated without it.
        if record.report?.nextChange.map({ $0 <= now }) ?? false { noteCatalogue(of: record) }
        while let instant = record.report?.nextChange, instant <= now, instant < end {
            publish(&record, asOf: instant, effectiveAt: instant)
            // An instant comes after the one before it. If it did not, this would not end.
            if let next = record.report?.nextChange, next <= instant { record.report?.nextChange = nil }
        }
    }
}

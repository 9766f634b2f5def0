// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import Synchronization

/// A ledger in memory, for tests and simulations: it keeps every promise but that of durability.
public final class MemoryLedgerStorage: LedgerStorage {
    private let state = Mutex(State())

    /// An empty ledger.
    public init() {}

    public func load(_ query: LedgerQuery) async throws -> LedgerSnapshot {
        state.withLock { $0.load(query, numbersCustomers: false) }
    }

    public func commit<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async throws -> Output {
        try state.withLock { state in
            try LedgerDecision.run(query, decide) {
                state.load($0, numbersCustomers: true)
            } commit: {
                state.commit($0)
            }
        }
    }

    public func dueChains(at now: Timestamp, limit: Int) async throws -> [ChainKey] {
        let chains = state.withLock { $0.chains.values }
        let due = chains.compactMap { record in record.report?.nextChange.map { (at: $0, key: record.key) } }
        return due.filter { $0.at <= now }.sorted { ($0.at, $0.key) < ($1.at, $1.key) }
            .prefix(max(0, limit)).map(\.key)
    }

    public func events(of bundleId: String, after cursor: EventCursor?, limit: Int) async throws -> EventPage {
        try state.withLock { try $0.events(of: bundleId, after: cursor, limit: max(0, limit)) }
    }

    public func eraseEvents(before instant: Timestamp, limit: Int) async throws -> Int {
        state.withLock { $0.eraseEvents(before: instant, limit: limit) }
    }

    public func scanDocuments(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<StoredDocument> {
        state.withLock { Self.page($0.documents, after: cursor, limit) }
    }

    public func scanChains(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<ChainKey> {
        state.withLock { Self.page($0.order.map(Optional.some), after: cursor, limit) }
    }

    private static func page<Item>(_ all: [Item?], after cursor: ScanCursor?, _ limit: Int) -> ScanPage<Item> {
        let start = min(all.count, max(0, cursor.flatMap { Int($0.rawValue) } ?? 0))
        let end = min(all.count, start + max(1, limit))
        return ScanPage(
            items: all[start..<end].compactMap(\.self), next: end == all.count ? nil : ScanCursor(rawValue: "\(end)"))
    }

    public func lastNotification(among count: Int) async throws -> Timestamp? {
        state.withLock { state in
            state.documents.lazy.compactMap(\.self).suffix(max(0, count)).last { $0.kind == .notification }?.receivedAt
        }
    }

    public func apiKeys() async throws -> [APIKey] { state.withLock { $0.apiKeys } }

    public func proveWritable() async throws {}
}

private struct State {
    /// In the order of their arrival; `nil` if one was erased.
    var documents: [StoredDocument?] = []
    var places: [Provenance: Int] = [:]
    /// The chains that a document is evidence for, and the other way round.
    var mentions: [Provenance: Set<ChainKey>] = [:]
    var evidence: [ChainKey: Set<Provenance>] = [:]
    var chains: [ChainKey: ChainRecord] = [:]
    /// Chains in the order in which they were stored first.
    var order: [ChainKey] = []
    var transactions: [TransactionKey: Set<ChainKey>] = [:]
    var customers: [Customer: CustomerRecord] = [:]
    var ids: [CustomerID: Customer] = [:]
    /// Also chains that are another customer's by now.
    var holdings: [Customer: Set<ChainKey>] = [:]
    var lastNumber: Int64 = 0
    var events: [String: EventList] = [:]
    var apiKeys: [APIKey] = []
    var catalogues: [String: [UInt8]] = [:]

    struct EventList {
        var erased = 0
        var events: [LedgerEvent] = []
    }
}

// MARK: - Loading

extension State {
    func load(_ query: LedgerQuery, numbersCustomers: Bool) -> LedgerSnapshot {
        var snapshot = LedgerSnapshot(query)
        snapshot.ids = ids.filter { query.customers.contains($0.key) }
        for transaction in query.transactions { snapshot.transactions[transaction] = chain(of: transaction) }
        let held = snapshot.ids.values.flatMap { holdings[$0] ?? [] }.filter {
            query.holdings.contains($0.scope.environment)
        }
        for key in query.chains.union(snapshot.transactions.values).union(held) { snapshot.chains[key] = chains[key] }
        let owners = snapshot.chains.values.flatMap(\.owners).map(\.customer)
        for customer in Array(snapshot.ids.values) + (query.owners ? owners : []) {
            snapshot.customers[customer] = customers[customer]
        }
        if numbersCustomers {
            let new = query.customers.filter { ids[$0] == nil }.sorted { $0.id < $1.id }
            for (place, id) in new.enumerated() { snapshot.newNumbers[id] = lastNumber + Int64(place) + 1 }
        }
        snapshot.names = query.names.filter { places[$0] != nil }
        for name in query.documents { snapshot.documents[name] = places[name].flatMap { documents[$0] } }
        for key in query.evidence {
            snapshot.evidence[key] = evidence[key]?.map { DocumentReference($0, about: mentions[$0] ?? []) }
        }
        snapshot.catalogues = catalogues.filter { query.catalogues.contains($0.key) }
        return snapshot
    }

    private func chain(of transaction: TransactionKey) -> ChainKey? {
        transactions[transaction]?.max { left, right in
            (newest(transaction, in: left) ?? .none, left) < (newest(transaction, in: right) ?? .none, right)
        }
    }

    private func newest(_ transaction: TransactionKey, in key: ChainKey) -> Provenance? {
        let fact = chains[key]?.chain.transactions[transaction.transactionId]
        return [fact?.signed, fact?.receipt].compactMap { $0?.provenance }.max()
    }

    func events(of bundleId: String, after cursor: EventCursor?, limit: Int) throws -> EventPage {
        let list = events[bundleId] ?? EventList()
        let start = cursor.map { Int($0.rawValue) } ?? list.erased
        guard let start, start >= 0, start <= list.erased + list.events.count else { throw EventCursorError.invalid }
        guard start >= list.erased else {
            throw EventCursorError.expired(oldest: EventCursor(rawValue: "\(list.erased)"))
        }
        let events = Array(list.events.dropFirst(start - list.erased).prefix(limit))
        var names: [Customer: String] = [:]
        for customer in events.compactMap(\.customer) { names[customer] = customers[customer]?.ids.first }
        return EventPage(
            events: events, customerIds: names, next: EventCursor(rawValue: "\(start + events.count)"))
    }
}

extension Provenance {
    /// Before all others.
    fileprivate static let none = Provenance(signedDate: .distantPast, evidence: EvidenceID([]))
}

// MARK: - Committing

extension State {
    mutating func commit(_ changes: LedgerChanges) {
        for document in changes.documents { store(document) }
        for record in changes.chains { put(record) }
        for (old, new) in changes.movedEvidence { moveEvidence(of: old, to: new) }
        for key in changes.erasedChains { eraseEvidence(of: key) }
        for customer in changes.erasedCustomers { erase(customer) }
        for record in changes.customers { put(record) }
        for event in changes.events { append(event) }
        for key in changes.apiKeys { apiKeys = apiKeys.filter { $0.id != key.id } + [key] }
        catalogues.merge(changes.catalogues) { $1 }
    }

    private mutating func store(_ new: NewDocument) {
        let (evidence, name) = (new.evidence, new.evidence.provenance)
        if places[name] == nil {
            places[name] = documents.count
            documents.append(
                StoredDocument(
                    id: evidence.id, kind: evidence.kind, scope: evidence.scope, signedDate: evidence.signedDate,
                    receivedAt: new.receivedAt, notification: evidence.notification, document: evidence.document))
        }
        mentions[name, default: []].formUnion(new.chains)
        for key in new.chains { self.evidence[key, default: []].insert(name) }
    }

    private mutating func put(_ record: ChainRecord) {
        let key = record.key
        if chains[key] == nil { order.append(key) }
        for id in chains[key]?.chain.transactions.keys ?? [:].keys {
            transactions[TransactionKey(id, in: key.scope)]?.remove(key)
        }
        for id in record.chain.transactions.keys {
            transactions[TransactionKey(id, in: key.scope), default: []].insert(key)
        }
        for owner in record.owners { holdings[owner.customer, default: []].insert(key) }
        chains[key] = record
    }

    private mutating func moveEvidence(of old: ChainKey, to new: ChainKey) {
        for name in evidence.removeValue(forKey: old) ?? [] {
            mentions[name]?.remove(old)
            mentions[name, default: []].insert(new)
            evidence[new, default: []].insert(name)
        }
    }

    private mutating func eraseEvidence(of key: ChainKey) {
        for name in evidence.removeValue(forKey: key) ?? [] {
            mentions[name]?.remove(key)
            guard mentions[name]?.isEmpty ?? false, let place = places.removeValue(forKey: name) else { continue }
            documents[place] = nil
            mentions[name] = nil
        }
    }

    private mutating func erase(_ customer: Customer) {
        for id in customers.removeValue(forKey: customer)?.ids ?? [] {
            ids[CustomerID(id, of: customer.bundleId)] = nil
        }
        holdings[customer] = nil
    }

    private mutating func put(_ record: CustomerRecord) {
        lastNumber = max(lastNumber, record.customer.number)
        customers[record.customer] = record
        for id in record.ids { ids[CustomerID(id, of: record.customer.bundleId)] = record.customer }
    }

    private mutating func append(_ event: LedgerEvent) {
        var (event, list) = (event, events[event.scope.bundleId] ?? EventList())
        event.cursor = EventCursor(rawValue: "\(list.erased + list.events.count + 1)")
        list.events.append(event)
        events[event.scope.bundleId] = list
    }

    mutating func eraseEvents(before instant: Timestamp, limit: Int) -> Int {
        var erased = 0
        for (bundleId, list) in events {
            let old = list.events.prefix { $0.recordedAt < instant }.count
            let count = min(old, max(0, limit - erased))
            events[bundleId]?.erased += count
            events[bundleId]?.events.removeFirst(count)
            erased += count
        }
        return erased
    }
}

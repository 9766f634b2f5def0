// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import Synchronization

/// A ledger in memory, for tests and simulations. It meets every requirement except durability.
///
/// The storage has few indexes, to stay simple. Most operations take time in proportion to the size of the ledger.
public final class MemoryLedgerStorage: LedgerStorage {
    private let state = Mutex(State())

    /// Makes an empty ledger.
    public init() {}

    public func load(_ query: LedgerQuery) async throws -> LedgerSnapshot { try state.withLock { try $0.load(query) } }

    public func commit<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async throws -> Output {
        try state.withLock { state in
            try LedgerDecision.run(query, decide, load: { try state.load($0) }, commit: { state.commit($0) })
        }
    }

    public func chains(
        _ selection: ChainSelection, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<ChainKey> {
        switch selection {
        case .all: state.withLock { Self.page($0.order.map(Optional.some), after: cursor, limit) }
        case .due(let now): first(limit) { $0.nextChange.flatMap { $0 <= now ? $0.milliseconds : nil } }
        case .ahead(let instant): first(limit) { $0.asOf.flatMap { $0 > instant ? -$0.milliseconds : nil } }
        }
    }

    /// The first chains, ordered by a number from their reports. Chains without such a number are left out.
    private func first(_ limit: Int, by number: (ChainReport) -> Int64?) -> ScanPage<ChainKey> {
        let found = state.withLock { $0.chains.values }.compactMap { record in
            record.report.flatMap(number).map { (number: $0, key: record.key) }
        }
        let chains = found.sorted { ($0.number, $0.key) < ($1.number, $1.key) }.map(\.key)
        return ScanPage(items: Array(chains.prefix(max(0, limit))), next: nil)
    }

    public func events(of bundleId: String, after cursor: EventCursor?, limit: Int) async throws -> EventPage {
        try state.withLock { try $0.events(of: bundleId, after: cursor, limit: max(0, limit)) }
    }

    public func endOfEvents(of bundleId: String) async throws -> EventCursor {
        state.withLock { $0.endOfEvents(of: bundleId) }
    }

    public func eraseEvents(before instant: Timestamp, limit: Int) async throws -> Int {
        state.withLock { $0.eraseEvents(before: instant, limit: limit) }
    }

    public func documents(
        _ selection: DocumentSelection, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<StoredDocument> {
        let documents = state.withLock { $0.documents.map { $0?.stored } }
        guard case .newest(let environment, let count) = selection else {
            return Self.page(documents, after: cursor, limit)
        }
        let newest = documents.compactMap(\.self).suffix(max(0, count)).filter {
            environment ?? $0.scope.environment == $0.scope.environment
        }
        return ScanPage(items: newest.suffix(max(0, limit)), next: nil)
    }

    /// The customers in the order of their numbers, so that an erasure during a scan moves no other customer.
    public func customers(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<CustomerRecord> {
        let last = cursor.flatMap { Int64($0.rawValue) } ?? 0
        let rest = state.withLock { $0.customers.values }.filter { $0.customer.number > last }
        let page = rest.sorted { $0.customer.number < $1.customer.number }.prefix(max(1, limit))
        let next = page.count < rest.count ? page.last.map { ScanCursor(rawValue: "\($0.customer.number)") } : nil
        return ScanPage(items: Array(page), next: next)
    }

    /// The records in the order of their keys, so that an insertion or erasure during a scan moves no other record.
    public func records(
        _ selection: RecordSelection, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<LedgerRecord> {
        let records = state.withLock { $0.records.values }.filter(selection.contains)
        if let now = selection.dueAt {
            // Many records may be due at the same instant. Their keys then decide the order, because a dictionary has
            // no fixed order.
            let due = records.sorted { left, right in
                guard left.dueAt == right.dueAt else { return left.dueAt ?? now < right.dueAt ?? now }
                return left.key.sortKey.lexicographicallyPrecedes(right.key.sortKey)
            }
            return ScanPage(items: Array(due.prefix(max(0, limit))), next: nil)
        }
        if selection.names != nil {
            let named = records.sorted { $0.key.name.utf8.lexicographicallyPrecedes($1.key.name.utf8) }
            return ScanPage(items: Array(named.prefix(max(0, limit))), next: nil)
        }
        let sorted = records.map { (sortKey: $0.key.sortKey.joined(separator: "\u{0}"), record: $0) }
        let rest = sorted.filter { $0.sortKey > cursor?.rawValue ?? "" }.sorted { $0.sortKey < $1.sortKey }
        let page = rest.prefix(max(1, limit))
        let next = page.count < rest.count ? page.last.map { ScanCursor(rawValue: $0.sortKey) } : nil
        return ScanPage(items: page.map(\.record), next: next)
    }

    private static func page<Item>(_ all: [Item?], after cursor: ScanCursor?, _ limit: Int) -> ScanPage<Item> {
        let start = min(all.count, max(0, cursor.flatMap { Int($0.rawValue) } ?? 0))
        let end = min(all.count, start + max(1, limit))
        return ScanPage(
            items: all[start..<end].compactMap(\.self), next: end == all.count ? nil : ScanCursor(rawValue: "\(end)"))
    }

    public func marks() async throws -> HighWaterMarks { state.withLock { $0.marks } }

    public func beginEpoch(at now: Timestamp) async throws { state.withLock { $0.beginEpochs(at: now) } }

    public func documentCount() async throws -> Int { state.withLock { $0.documents.count { $0 != nil } } }

    public func proveWritable() async throws {}
}

private struct State {
    /// The documents in the order of their arrival; `nil` if erased.
    var documents: [Document?] = []
    var indexes: [Provenance: Int] = [:]
    var chains: [ChainKey: ChainRecord] = [:]
    /// The chains in the order of their first commit.
    var order: [ChainKey] = []
    var customers: [Customer: CustomerRecord] = [:]
    var lastNumber: Int64 = 0
    var events: [String: EventList] = [:]
    /// The number above which every app numbers its new events: the last number of the source if this ledger is a copy,
    /// otherwise 0.
    var firstEvent: Int64 = 0
    var records: [RecordKey: LedgerRecord] = [:]

    struct Document {
        var stored: StoredDocument
        var chains: Set<ChainKey>

        mutating func store(again new: NewDocument) {
            let isSame = new.wording == stored.wording && new.chains.isSubset(of: chains)
            chains.formUnion(new.chains)
            stored.wording = stored.wording ?? new.wordingKey?.wording
            stored.isPinned = stored.isPinned || !isSame && stored.wording != nil
        }
    }

    struct EventList {
        /// The number of the last erased event.
        var erased: Int64 = 0
        var events: [LedgerEvent] = []
        var epochs: EventEpochs

        /// The id of an app's first epoch (``EventEpochs``) is the bundle id, so that simulations are repeatable.
        init(of bundleId: String) { epochs = EventEpochs([EventEpoch(id: bundleId)]) }

        var last: Int64 { events.last?.cursor?.number ?? erased }

        /// The index of the first event after a number.
        func index(after number: Int64) -> Int {
            var range = events.startIndex..<events.endIndex
            while let middle = range.dropFirst(range.count / 2).first {
                let isBefore = events[middle].cursor?.number ?? 0 <= number
                range = isBefore ? middle + 1..<range.upperBound : range.lowerBound..<middle
            }
            return range.lowerBound
        }

        /// Adds an event without a number after `first` and after all others.
        mutating func append(_ new: LedgerEvent, after first: Int64) {
            var event = new
            let number = event.cursor?.number ?? max(first, last) + 1
            event.cursor = epochs.cursor(number)
            let index = index(after: number)
            guard index == 0 || events[index - 1].cursor != event.cursor else { return }
            events.insert(event, at: index)
        }
    }
}

// MARK: - Loading

extension State: SnapshotSource {
    func load(_ query: LedgerQuery) throws -> LedgerSnapshot {
        var snapshot = try LedgerSnapshot(query, from: self)
        let new = query.keys.customerIDs.filter { snapshot.ids[$0] == nil }.sorted { $0.id < $1.id }
        for (index, id) in new.enumerated() { snapshot.newNumbers[id] = lastNumber + Int64(index) + 1 }
        return snapshot
    }

    func customer(_ id: CustomerID) -> CustomerRecord? {
        customers.values.first { record in
            record.customer.bundleId == id.bundleId && record.ids.contains { $0.isSameID(as: id.id) }
        }
    }

    func customer(_ customer: Customer) -> CustomerRecord? { customers[customer] }

    func chain(_ key: ChainKey) -> ChainRecord? { chains[key] }

    func chains(of transaction: TransactionKey) -> [ChainKey] {
        chains.values.filter { $0.chain.knows(transaction) }.map(\.key)
    }

    func chains(of customer: Customer, in environment: Environment) -> [ChainRecord] {
        chains.values.filter { $0.key.scope.environment == environment && $0.isOwned(by: customer) }
    }

    func openChains(
        of customer: Customer, in environment: Environment, besides settled: SettledChains
    ) -> ([ChainRecord], unknownProducts: Set<String>) {
        let all = chains(of: customer, in: environment)
        let unknown = all.lazy.filter { $0.isAmong(settled) }.compactMap(\.settlement?.unknownProducts).joined()
        return (all.filter { !$0.isAmong(settled) }.map { $0.withoutPastPeriods(settled) }, Set(unknown))
    }

    func isStored(_ name: Provenance) -> Bool { indexes[name] != nil }

    func document(_ name: Provenance) -> StoredDocument? { indexes[name].flatMap { documents[$0]?.stored } }

    func documents(_ key: WordingKey) -> [WordedDocument] {
        let found = documents.lazy.compactMap(\.self).filter {
            $0.stored.wording == key.wording && $0.chains == [key.chain]
        }
        return found.map { WordedDocument($0.stored.name, isPinned: $0.stored.isPinned) }
    }

    func evidence(for key: ChainKey) -> [DocumentReference] {
        let about = documents.lazy.compactMap(\.self).filter { $0.chains.contains(key) }
        return about.map { DocumentReference($0.stored.name, about: $0.chains) }
    }

    func record(_ key: RecordKey) -> LedgerRecord? { records[key] }
}

// MARK: - Events

extension State {
    func events(of bundleId: String, after cursor: EventCursor?, limit: Int) throws -> EventPage {
        let list = list(of: bundleId)
        let start = try list.epochs.start(after: cursor, erased: list.erased, last: max(firstEvent, list.last))
        let events = Array(list.events[list.index(after: start)...].prefix(limit))
        var names: [Customer: String] = [:]
        for customer in events.compactMap(\.customer) { names[customer] = customers[customer]?.ids.first }
        return EventPage(events: events, customerIds: names, next: events.last?.cursor ?? list.epochs.cursor(start))
    }

    func endOfEvents(of bundleId: String) -> EventCursor {
        let list = list(of: bundleId)
        return list.epochs.end(max(firstEvent, list.last))
    }

    private func list(of bundleId: String) -> EventList {
        events[bundleId] ?? EventList(of: bundleId)
    }

    mutating func beginEpochs(at now: Timestamp) {
        for (app, list) in events {
            events[app]?.epochs.begin("\(app).\(list.epochs.all.count)", after: max(firstEvent, list.last))
            let environments = Set((chains.keys.map(\.scope) + list.events.map(\.scope)).filter { $0.bundleId == app })
            for scope in environments.sorted(by: { $0.environment.rawValue < $1.environment.rawValue }) {
                append(LedgerEvent(.ledgerRestored, in: scope, at: now))
            }
        }
    }

    var marks: HighWaterMarks {
        var marks = HighWaterMarks()
        marks.lastCustomer = lastNumber
        marks.lastEvent = events.values.map(\.last).reduce(firstEvent, max)
        let scopes = chains.keys.map(\.scope) + documents.compactMap { $0?.stored.scope }
        let apps = scopes.map(\.bundleId) + customers.keys.map(\.bundleId) + records.keys.compactMap(\.owner.bundleId)
        for app in Set(apps).union(events.keys) {
            marks.erasedEvents[app] = events[app]?.erased ?? 0
            marks.epochs[app] = list(of: app).epochs
        }
        return marks
    }
}

// MARK: - Committing

extension State {
    mutating func commit(_ changes: LedgerChanges) {
        for document in changes.documents { store(document) }
        for record in changes.chains {
            if chains.updateValue(record, forKey: record.key) == nil { order.append(record.key) }
        }
        for (old, new) in changes.movedEvidence { replaceEvidence(of: old, with: new) }
        for key in changes.erasedChains { replaceEvidence(of: key, with: nil) }
        for name in changes.displacedDocuments where isDisplaceable(name) { erase(name) }
        for customer in changes.erasedCustomers { customers[customer] = nil }
        for record in changes.customers {
            lastNumber = max(lastNumber, record.customer.number)
            customers[record.customer] = record
        }
        for event in changes.events { append(event) }
        for key in changes.erasedRecords { records[key] = nil }
        for record in changes.records { records[record.key] = record }
        raise(changes.marks)
    }

    private mutating func raise(_ marks: HighWaterMarks) {
        lastNumber = max(lastNumber, marks.lastCustomer)
        firstEvent = max(firstEvent, marks.lastEvent)
        for (app, erased) in marks.erasedEvents {
            var list = list(of: app)
            list.erased = max(erased, list.erased)
            events[app] = list
        }
        for (app, epochs) in marks.epochs {
            var list = list(of: app)
            list.epochs = epochs
            events[app] = list
        }
    }

    private mutating func store(_ new: NewDocument) {
        if let index = indexes[new.evidence.provenance] {
            documents[index]?.store(again: new)
        } else {
            indexes[new.evidence.provenance] = documents.count
            documents.append(Document(stored: StoredDocument(new), chains: new.chains))
        }
    }

    /// The documents of a chain become evidence for a new chain instead. Without a new chain, erases the documents that
    /// are then evidence for no chain.
    private mutating func replaceEvidence(of old: ChainKey, with new: ChainKey?) {
        for index in documents.indices {
            guard documents[index]?.chains.remove(old) != nil else { continue }
            if let new { documents[index]?.chains.insert(new) }
            guard let document = documents[index], document.chains.isEmpty else { continue }
            erase(document.stored.name)
        }
    }

    private func isDisplaceable(_ name: Provenance) -> Bool {
        let stored = document(name)
        return stored?.wording != nil && stored?.isPinned == false
    }

    private mutating func erase(_ name: Provenance) {
        if let index = indexes.removeValue(forKey: name) { documents[index] = nil }
    }

    /// In place, because a changed copy of the list would copy all events.
    private mutating func append(_ event: LedgerEvent) {
        let app = event.scope.bundleId
        events[app, default: EventList(of: app)].append(event, after: firstEvent)
    }

    mutating func eraseEvents(before instant: Timestamp, limit: Int) -> Int {
        var erased = 0
        for (bundleId, list) in events {
            let old = list.events.prefix { $0.recordedAt < instant }.prefix(max(0, limit - erased))
            guard let last = old.last?.cursor?.number else { continue }
            events[bundleId]?.erased = last
            events[bundleId]?.events.removeFirst(old.count)
            erased += old.count
        }
        return erased
    }
}

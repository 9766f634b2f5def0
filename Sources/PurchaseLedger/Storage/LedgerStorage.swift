// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The storage of a ledger. A storage knows no rules: it loads records, and commits decisions about the records.
///
/// Eleven requirements have no default, and come first. `LedgerStorageContract` in `PurchaseLedgerTesting` tests them.
public protocol LedgerStorage: Sendable {
    /// Loads the records of a query in a single consistent state, including all earlier commits.
    ///
    /// - Throws: ``LedgerStorageError``, or `CancellationError` if the task was cancelled before the load began.
    func load(_ query: LedgerQuery) async throws -> LedgerSnapshot

    /// Loads the records of a query, decides and commits.
    ///
    /// When this method returns, all changes are durable. If it throws, no change was made, unless the error's code is
    /// ``LedgerStorageError/Code/unavailable``: the outcome is then unknown. Between load and commit no other commit
    /// changes a loaded record: the storage either prevents such a commit, or loads and decides again. Therefore
    /// `decide` must have no side effects: it may run several times, and only the changes of the last run count. If the
    /// task is cancelled, this method still reports whether the changes were committed.
    ///
    /// - Throws: Errors of `decide`, or ``LedgerStorageError``.
    func commit<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async throws -> Output

    /// The events of an app after a cursor, oldest first, at most `limit`.
    ///
    /// Once a cursor was returned, no new event appears before it. The events of a purchase (``Chain``) keep the order
    /// in which they were decided.
    ///
    /// - Parameter cursor: `nil` for the beginning.
    /// - Throws: ``EventCursorError`` if the cursor is not of this ledger, or if events after the cursor were erased.
    func events(of bundleId: String, after cursor: EventCursor?, limit: Int) async throws -> EventPage

    /// Erases events recorded before an instant, at most `limit`.
    ///
    /// - Returns: The number of erased events.
    func eraseEvents(before: Timestamp, limit: Int) async throws -> Int

    /// The chains of a selection after a cursor, at most `limit`.
    ///
    /// - Parameter cursor: `nil` for the beginning.
    func chains(_ selection: ChainSelection, after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<ChainKey>

    /// The customers after a cursor, at most `limit`, in any order. A scan finds each customer exactly once, if the
    /// customer is stored during the whole scan.
    ///
    /// - Parameter cursor: `nil` for the beginning.
    func customers(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<CustomerRecord>

    /// The documents of a selection after a cursor, at most `limit`. A scan of all documents finds each document
    /// exactly once, if the document is stored during the whole scan.
    ///
    /// - Parameter cursor: `nil` for the beginning.
    func documents(
        _ selection: DocumentSelection, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<StoredDocument>

    /// The records of a selection after a cursor, at most `limit`, in any order. A scan finds each record exactly once,
    /// if the record is stored during the whole scan. Due records come on a single page, the earliest first; records of
    /// the same instant come in any order. A selection with ``RecordSelection/names`` has an order of its own.
    ///
    /// - Parameter cursor: `nil` for the beginning.
    func records(
        _ selection: RecordSelection, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<LedgerRecord>

    /// The numbers assigned so far, and the apps in the ledger with the epochs of their events (``EventEpochs``). A
    /// storage may first give numbers to events that wait for them.
    func marks() async throws -> HighWaterMarks

    /// The bundle ids of the apps in the ledger, sorted. Unlike ``marks()``, it writes nothing in any storage.
    func apps() async throws -> [String]

    /// Begins an epoch of each app's events, see ``EventEpochs``, with an event of the kind
    /// ``LedgerEvent/Kind/ledgerRestored`` in each environment of which the ledger has documents or events. A ledger
    /// needs a new epoch if it may lack events which followers have read. Cursors returned by this ledger stay valid.
    func beginEpoch(at now: Timestamp) async throws

    /// Proves that the storage is writable, by a write that changes no record.
    func proveWritable() async throws

    // The following requirements have defaults.

    /// The customers of an app after a cursor, at most `limit`. The cost of a page is bounded, however many customers
    /// other apps have: a page may therefore have fewer customers than `limit`, or none, although more pages follow.
    /// The pages of ``CustomerSelection/all`` together have each customer exactly once, if the customer is stored
    /// during the whole scan.
    ///
    /// - Parameter cursor: `nil` for the beginning. For ``CustomerSelection/all``, the number of a customer, stored or
    ///   not.
    func customers(
        _ selection: CustomerSelection, of bundleId: String, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<CustomerRecord>

    /// The same, restricted to a selection. The page ends after its `limit` events, or else after the last event that
    /// was compared with the selection.
    func events(
        _ selection: EventSelection?, of bundleId: String, after cursor: EventCursor?, limit: Int
    ) async throws -> EventPage

    /// The cursor after the last event of an app. A commit of events is visible to each load after this call, or its
    /// events come after the cursor, or both.
    func endOfEvents(of bundleId: String) async throws -> EventCursor

    /// A cursor before the newest `count` events of an app, or before more events, if some had no number yet; `nil` if
    /// the app has no further events.
    func cursor(beforeNewest count: Int, of bundleId: String) async throws -> EventCursor?

    /// The first `limit` due records of each lane (``RecordLane``), and whether chains are due
    /// (``ChainReport/nextChange``). The parts of the answer may come from different states of the ledger. A server
    /// calls this method once a second. While there is no due record, the call must therefore cost next to nothing,
    /// however many lanes there are.
    ///
    /// - Parameter lanes: The lanes, without duplicates.
    func due(in lanes: [RecordLane], at now: Timestamp, limit: Int) async throws -> DueWork

    /// The approximate number of statements (``TransactionStatement``) in the chains (``Chain``) that ``load(_:)``
    /// would return, and in the successors of migrated chains. With this number, a server estimates the cost of a load
    /// and its answer in advance. The count should therefore take only a small part of the time of the load.
    ///
    /// - Returns: The number, including the statements in ``Chain/residue``. A storage that keeps chains whole may
    ///   estimate the number from their size.
    func statementCount(_ query: LedgerQuery) async throws -> Int

    /// Whether every document is still stored, except for documents that were replaced by documents with the same
    /// ``Wording``, or erased with their purchase. False if the operator has removed old documents to save space. Facts
    /// without a document are then no fault.
    func keepsAllDocuments() async throws -> Bool

    /// The number of documents.
    func documentCount() async throws -> Int

    /// The notifications of an app, or with `nil` of all apps, among the last `count` documents, counted by the hour of
    /// their arrival: the newest hours first, at most `limit`, without hours in which none arrived. Which documents are
    /// the last depends on the storage: the last to arrive, or the last to be signed.
    func notificationHours(of bundleId: String?, among count: Int, limit: Int) async throws -> [NotificationHour]

    /// Updates the storage's own statistics after a large write. A database uses such statistics to plan its queries.
    func adaptToSize() async throws

    /// Repairs the data that the storage keeps besides the records, such as a lookup table, if ``faults()`` finds a
    /// fault. Without a fault, this method does not write.
    func mend() async throws

    /// Prepares the storage for the time after an instant, for example with tables for the documents of the next
    /// months. A server calls this method at its start and once an hour. After a failure, ``condition`` describes the
    /// problem, and the next call tries again.
    func prepare(at now: Timestamp) async

    /// The condition of the storage, as far as it is known without a request. ``proveWritable()`` finds out whether a
    /// part of the records is unavailable.
    var condition: StorageCondition { get }

    /// The report to the operator.
    func report() async throws -> StorageReport

    /// The faults in a file, or in the data that a database keeps besides the records: a sentence each.
    func faults() async throws -> [String]

    /// The time by which a clock is ahead of the storage's own clock; negative if the clock is behind, `nil` if the
    /// storage has no clock. Events get their times from the servers' clocks, so these clocks should agree.
    ///
    /// - Parameter now: The clock.
    func clockDifference(now: @Sendable () -> Timestamp) async throws -> Duration?

    /// Closes the storage after its running operations. No operation may begin after this call.
    func close() throws
}

extension LedgerStorage {
    /// Searches lane by lane. A storage on another machine should answer in a single request.
    public func due(in lanes: [RecordLane], at now: Timestamp, limit: Int) async throws -> DueWork {
        var work = DueWork()
        for lane in lanes {
            let selection = RecordSelection(lane.kind, of: lane.owner, dueAt: now)
            work.records += try await records(selection, limit: limit).map(\.key)
        }
        work.hasDueChains = try await !chains(.due(at: now), limit: 1).isEmpty
        return work
    }

    /// Reads a page of the customers of all apps, for storages with customers in the order of their numbers, and with
    /// these numbers as cursors. Reads all customers for the other selections.
    public func customers(
        _ selection: CustomerSelection, of bundleId: String, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<CustomerRecord> {
        var page = try await customers(after: selection == .all ? cursor : nil, limit: selection == .all ? limit : 500)
        var all = page.items
        while selection != .all, let next = page.next {
            page = try await customers(after: next, limit: 500)
            all += page.items
        }
        all.removeAll { $0.customer.bundleId != bundleId }
        guard selection != .all else { return ScanPage(items: all, damage: page.damage, next: page.next) }
        let found = selection.found(all, after: cursor)
        let items = found.prefix(max(1, limit))
        let next = items.count < found.count ? items.last?.place : nil
        return ScanPage(items: items.map(\.customer), next: next.map { ScanCursor(rawValue: $0) })
    }

    /// Reads all events that are compared.
    public func events(
        _ selection: EventSelection?, of bundleId: String, after cursor: EventCursor?, limit: Int
    ) async throws -> EventPage {
        var page = try await events(of: bundleId, after: cursor, limit: selection?.among ?? limit)
        guard let selection else { return page }
        let found = page.events.filter(selection.includes)
        page.events = Array(found.prefix(max(0, limit)))
        if found.count >= limit { page.next = page.events.last?.cursor ?? cursor ?? page.next }
        return page
    }

    /// Reads all events of the app.
    public func endOfEvents(of bundleId: String) async throws -> EventCursor {
        var page = try await events(of: bundleId, after: nil, limit: 500)
        while !page.events.isEmpty { page = try await events(of: bundleId, after: page.next, limit: 500) }
        return page.next
    }

    /// Reads all events of the app.
    public func cursor(beforeNewest count: Int, of bundleId: String) async throws -> EventCursor? {
        var page = try await events(of: bundleId, after: nil, limit: 500)
        var newest: [EventCursor] = []
        while !page.events.isEmpty {
            newest = (newest + page.events.compactMap(\.cursor)).suffix(count + 1)
            page = try await events(of: bundleId, after: page.next, limit: 500)
        }
        return newest.count > count ? newest.first : nil
    }

    /// Does nothing.
    public func prepare(at now: Timestamp) async {}

    /// A condition without a warning, and with all records available.
    public var condition: StorageCondition { StorageCondition() }

    /// An empty report.
    public func report() async throws -> StorageReport { StorageReport() }

    /// An empty list, because the storage looks for no faults.
    public func faults() async throws -> [String] { [] }

    /// For a storage whose ``marks()`` only reads.
    public func apps() async throws -> [String] { try await marks().erasedEvents.keys.sorted() }

    /// `nil`, because the storage has no clock.
    public func clockDifference(now: @Sendable () -> Timestamp) async throws -> Duration? { nil }

    /// Does nothing.
    public func close() throws {}

    /// Loads the chains and counts their statements, for storages with cheap loads.
    public func statementCount(_ query: LedgerQuery) async throws -> Int {
        var records = try await load(query).chains
        let successors = records.values.compactMap { record in
            record.successor.map { ChainKey($0, in: record.key.scope) }
        }
        if !successors.isEmpty {
            records.merge(try await load(LedgerQuery(successors.map(LedgerKey.chain))).chains) { $1 }
        }
        return records.values.reduce(0) { $0 + $1.chain.statementCount }
    }

    /// True, because the storage keeps all documents.
    public func keepsAllDocuments() async throws -> Bool { true }

    /// Reads the documents.
    public func notificationHours(
        of bundleId: String?, among count: Int, limit: Int
    ) async throws -> [NotificationHour] {
        let documents = try await documents(.newest(among: count), limit: count).filter { $0.kind == .notification }
        let arrivals = documents.filter { bundleId ?? $0.scope.bundleId == $0.scope.bundleId }.map(\.receivedAt)
        let hours = Dictionary(grouping: arrivals) { $0.milliseconds / NotificationHour.length }
            .map { NotificationHour($0.key, $0.value.count, newest: $0.value.max() ?? .distantPast) }
        return Array(hours.sorted { $0.from > $1.from }.prefix(max(0, limit)))
    }

    /// Reads all documents.
    public func documentCount() async throws -> Int {
        var count = 0
        var cursor: ScanCursor?
        repeat {
            let page = try await documents(.all, after: cursor, limit: 500)
            count += page.items.count
            cursor = page.next
        } while cursor != nil
        return count
    }

    /// Does nothing, because most storages keep no statistics.
    public func adaptToSize() async throws {}

    /// Does nothing, because the storage keeps only records.
    public func mend() async throws {}

    /// The first chains of a selection, at most `limit`.
    public func chains(_ selection: ChainSelection, limit: Int) async throws -> [ChainKey] {
        try await chains(selection, after: nil, limit: limit).items
    }

    /// The first readable documents of a selection, at most `limit`.
    public func documents(_ selection: DocumentSelection, limit: Int) async throws -> [StoredDocument] {
        try await documents(selection, after: nil, limit: limit).items
    }

    /// The first records of a selection, at most `limit`.
    public func records(_ selection: RecordSelection, limit: Int) async throws -> [LedgerRecord] {
        try await records(selection, after: nil, limit: limit).items
    }
}

extension CustomerSelection {
    /// The customers of the selection after a cursor, each with its place.
    fileprivate func found(
        _ customers: [CustomerRecord], after cursor: ScanCursor?
    ) -> [(place: String, customer: CustomerRecord)] {
        guard case .beginning(let text) = self else {
            let last = cursor.flatMap { Int64($0.rawValue) } ?? .max
            return customers.filter { $0.customer.number < last }
                .sorted { $0.customer.number > $1.customer.number }.map { ("\($0.customer.number)", $0) }
        }
        let places = customers.flatMap { customer in customer.ids.map { (place: $0, customer: customer) } }
        return places.filter { place, _ in
            place.utf8.starts(with: text.utf8)
                && cursor.map { $0.rawValue.utf8.lexicographicallyPrecedes(place.utf8) } ?? true
        }.sorted { $0.place.utf8.lexicographicallyPrecedes($1.place.utf8) }
    }

    /// The least text after all texts that begin with the text, but for those that go on with U+10FFFF, which is no
    /// character.
    package static func end(of beginning: String) -> String { beginning + "\u{10FFFF}" }
}

/// Decides how the records in a snapshot change.
public typealias LedgerDecider<Output: Sendable> = @Sendable (LedgerSnapshot) throws -> LedgerDecision<Output>

/// The result of a decision.
public enum LedgerDecision<Output: Sendable>: Sendable {
    /// Commit the changes, and return the output.
    case commit(LedgerChanges, Output)
    /// Load further records, and decide again.
    case load(LedgerQuery)
}

extension LedgerDecision {
    /// The maximum number of loads for a decision. Normally, one or two loads after the first suffice.
    private static var maxLoads: Int { 8 }

    /// Loads and decides until the decision needs no further records, then commits. For storages that exclude other
    /// writers during this call.
    ///
    /// - Throws: Errors of `decide`, `load` and `commit`, or ``LedgerStorageError`` if a decision needs too many loads.
    public static func run(
        _ query: LedgerQuery, _ decide: LedgerDecider<Output>, load: (LedgerQuery) throws -> LedgerSnapshot,
        commit: (LedgerChanges) throws -> Void
    ) throws -> Output {
        var query = query
        for _ in 0..<maxLoads {
            switch try decide(try load(query)) {
            case .load(let more): query = query.union(more)
            case .commit(let changes, let output):
                try commit(changes)
                return output
            }
        }
        throw LedgerStorageError(.unavailable, "A decision asked for more records too often")
    }
}

// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Stores a ledger. A storage knows no rules: it loads records, and commits what was decided about them.
///
/// Eleven requirements have no default: they come first. `LedgerStorageContract` in `PurchaseLedgerTesting` tests them.
public protocol LedgerStorage: Sendable {
    /// Loads one consistent state of what a query names, including everything committed before.
    ///
    /// - Throws: ``LedgerStorageError``, or `CancellationError` if the task was cancelled before the load began.
    func load(_ query: LedgerQuery) async throws -> LedgerSnapshot

    /// Loads what a query names, decides and commits.
    ///
    /// Once this returns, all changes are durable. If it throws, nothing was changed. Between load and commit no other
    /// commit changes what was loaded: the storage either prevents it, or loads and decides again. Therefore `decide`
    /// must have no side effects: it may run several times, and only the changes of the last run count. If the task is
    /// cancelled, this still reports whether the changes were committed.
    ///
    /// - Throws: Errors of `decide`, or ``LedgerStorageError``.
    func commit<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async throws -> Output

    /// The events of one app after a cursor, oldest first, at most `limit`.
    ///
    /// Once a cursor was returned, no new event appears before it. Events of one chain keep the order in which they
    /// were decided.
    ///
    /// - Parameter cursor: `nil` for the beginning.
    /// - Throws: ``EventCursorError`` if the cursor is not of this ledger, or if events after it were erased.
    func events(of bundleId: String, after cursor: EventCursor?, limit: Int) async throws -> EventPage

    /// Erases events that were recorded before an instant, at most `limit`.
    ///
    /// - Returns: How many events were erased.
    func eraseEvents(before: Timestamp, limit: Int) async throws -> Int

    /// The chains of a selection after a cursor, at most `limit`.
    ///
    /// - Parameter cursor: `nil` for the beginning.
    func chains(_ selection: ChainSelection, after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<ChainKey>

    /// The customers after a cursor, at most `limit`, in any order. Each customer that was stored when the scan began,
    /// and still is, is found once.
    ///
    /// - Parameter cursor: `nil` for the beginning.
    func customers(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<CustomerRecord>

    /// The documents of a selection after a cursor, at most `limit`. Each document that was stored when a scan of all
    /// began, and still is, is found once.
    ///
    /// - Parameter cursor: `nil` for the beginning.
    func documents(
        _ selection: DocumentSelection, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<StoredDocument>

    /// The records of a selection after a cursor, at most `limit`, in any order. Each record that was stored when the
    /// scan began, and still is, is found once. Of those that are due there is one page, the earliest first; those of
    /// one instant come in any order.
    ///
    /// - Parameter cursor: `nil` for the beginning.
    func records(
        _ selection: RecordSelection, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<LedgerRecord>

    /// The numbers that were given so far, and the apps in the ledger with their epochs.
    func marks() async throws -> HighWaterMarks

    /// Begins an epoch of each app's events, see ``EventEpochs``: for a ledger that may lack events which followers
    /// have read. Cursors that were returned so far stay valid.
    func beginEpoch() async throws

    /// Finds out whether writing is possible, by a write that changes no record.
    func proveWritable() async throws

    // All others have defaults.

    /// What is due, also in several states: of each lane the first `limit` records. A server asks this each second, so
    /// while nothing is due it must cost next to nothing, however many lanes there are.
    ///
    /// - Parameter lanes: The lanes, none of them twice.
    func due(in lanes: [RecordLane], at now: Timestamp, limit: Int) async throws -> DueWork

    /// About how many statements the chains have that ``load(_:)`` would return, and the successors of those that were
    /// migrated: what it costs to load them and to answer with them, which is asked before that is done. It takes a
    /// small part of the time of the load.
    ///
    /// - Returns: The number, residue included. A storage that keeps chains whole may estimate it from their size.
    func statementCount(_ query: LedgerQuery) async throws -> Int

    /// Whether each document is still stored, unless it was erased with its purchase or displaced by another one. A
    /// storage from which old documents may be taken to save space returns false once that was done. Facts without a
    /// document are then no error.
    func keepsAllDocuments() async throws -> Bool

    /// How many documents there are.
    func documentCount() async throws -> Int

    /// When the notification arrived that arrived last; `nil` if there is none among the last `count` documents, in the
    /// order of their arrival or in that of their signing.
    func lastNotification(among count: Int) async throws -> Timestamp?

    /// Brings up to date what the storage knows about its own size, after so much was written at once that the ledger
    /// is another one: a database plans its statements by that.
    func adaptToSize() async throws

    /// Mends what the storage keeps besides the records, such as a table by which records are found, wherever
    /// ``faults()`` finds it wrong. If nothing is wrong, writes nothing.
    func mend() async throws

    /// Prepares the storage for the time after an instant, such as tables for the documents of the next months. A
    /// server calls it at its start and once an hour. If it fails, the next call does it, and ``condition`` says what
    /// is missing.
    func prepare(at now: Timestamp) async

    /// How well the storage works, as far as it is known without asking it. ``proveWritable()`` finds out whether a
    /// part of the records is away.
    var condition: StorageCondition { get }

    /// What an operator should know of the storage.
    func report() async throws -> StorageReport

    /// What is wrong with a file, or with what a database keeps besides the records: a sentence each.
    func faults() async throws -> [String]

    /// How far a clock is ahead of the storage's own; negative if it is behind, `nil` if the storage has none. Events
    /// get their times from the servers' clocks, so these should agree.
    ///
    /// - Parameter now: The clock.
    func clockDifference(now: @Sendable () -> Timestamp) async throws -> Duration?

    /// Closes the storage after what has begun. Nothing may be asked of it any more.
    func close() throws
}

extension LedgerStorage {
    /// Searches lane by lane. A storage on another machine should answer all of it at once.
    public func due(in lanes: [RecordLane], at now: Timestamp, limit: Int) async throws -> DueWork {
        var work = DueWork()
        for lane in lanes {
            let selection = RecordSelection(lane.kind, of: lane.owner, dueAt: now)
            work.records += try await records(selection, limit: limit).map(\.key)
        }
        work.hasDueChains = try await !chains(.due(at: now), limit: 1).isEmpty
        return work
    }

    /// Nothing is to be prepared.
    public func prepare(at now: Timestamp) async {}

    /// No warning, and all records are together.
    public var condition: StorageCondition { StorageCondition() }

    /// Nothing is to be known.
    public func report() async throws -> StorageReport { StorageReport() }

    /// Nothing is looked for.
    public func faults() async throws -> [String] { [] }

    /// There is no other clock.
    public func clockDifference(now: @Sendable () -> Timestamp) async throws -> Duration? { nil }

    /// Nothing is to be closed.
    public func close() throws {}

    /// Loads the chains and counts, for storages whose loads cost next to nothing.
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

    /// All documents are kept.
    public func keepsAllDocuments() async throws -> Bool { true }

    /// Reads some of the newest notifications, so that a damaged one does not hide the time.
    public func lastNotification(among count: Int) async throws -> Timestamp? {
        let newest = try await documents(.newest(of: .notification, among: count), limit: 3)
        return newest.map(\.receivedAt).max()
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

    /// Does nothing: most storages know no size.
    public func adaptToSize() async throws {}

    /// Nothing is kept but the records.
    public func mend() async throws {}
}

extension LedgerStorage {
    /// The first chains of a selection, at most `limit`.
    public func chains(_ selection: ChainSelection, limit: Int) async throws -> [ChainKey] {
        try await chains(selection, after: nil, limit: limit).items
    }

    /// The first documents of a selection that can be read, at most `limit`.
    public func documents(_ selection: DocumentSelection, limit: Int) async throws -> [StoredDocument] {
        try await documents(selection, after: nil, limit: limit).items
    }

    /// The first records of a selection, at most `limit`.
    public func records(_ selection: RecordSelection, limit: Int) async throws -> [LedgerRecord] {
        try await records(selection, after: nil, limit: limit).items
    }
}

/// Decides how the records in a snapshot change.
public typealias LedgerDecider<Output: Sendable> = @Sendable (LedgerSnapshot) throws -> LedgerDecision<Output>

/// The outcome of a decision.
public enum LedgerDecision<Output: Sendable>: Sendable {
    /// Commit these changes, and return the output.
    case commit(LedgerChanges, Output)
    /// Load these records too, and decide again.
    case load(LedgerQuery)
}

extension LedgerDecision {
    /// The limit on loads for one decision. One or two loads after the first lead to everything that a decision needs.
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

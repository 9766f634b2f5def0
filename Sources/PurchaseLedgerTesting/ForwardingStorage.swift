// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
public import PurchaseLedger

/// A storage that forwards every operation to an inner storage. A conforming type implements only the operations with
/// which a test interferes.
public protocol ForwardingStorage: LedgerStorage {
    /// The storage that receives the forwarded operations.
    var inner: any LedgerStorage { get }

    /// A hook that runs before each forwarded operation except `prepare(at:)`, `condition` and `close()`. If the hook
    /// throws, the operation fails with its error.
    func willForward() throws
}

extension ForwardingStorage {
    /// ``inner``, after a call of ``willForward()``.
    private var target: any LedgerStorage {
        get throws {
            try willForward()
            return inner
        }
    }

    public func willForward() throws {}

    public func load(_ query: LedgerQuery) async throws -> LedgerSnapshot { try await target.load(query) }

    public func due(in lanes: [RecordLane], at now: Timestamp, limit: Int) async throws -> DueWork {
        try await target.due(in: lanes, at: now, limit: limit)
    }

    public func statementCount(_ query: LedgerQuery) async throws -> Int { try await target.statementCount(query) }

    public func commit<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async throws -> Output {
        try await target.commit(query, decide)
    }

    public func events(of bundleId: String, after cursor: EventCursor?, limit: Int) async throws -> EventPage {
        try await target.events(of: bundleId, after: cursor, limit: limit)
    }

    public func events(
        _ selection: EventSelection?, of bundleId: String, after cursor: EventCursor?, limit: Int
    ) async throws -> EventPage {
        guard selection != nil else { return try await events(of: bundleId, after: cursor, limit: limit) }
        return try await target.events(selection, of: bundleId, after: cursor, limit: limit)
    }

    public func eraseEvents(before instant: Timestamp, limit: Int) async throws -> Int {
        try await target.eraseEvents(before: instant, limit: limit)
    }

    public func chains(
        _ selection: ChainSelection, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<ChainKey> {
        try await target.chains(selection, after: cursor, limit: limit)
    }

    public func customers(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<CustomerRecord> {
        try await target.customers(after: cursor, limit: limit)
    }

    public func customers(
        _ selection: CustomerSelection, of bundleId: String, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<CustomerRecord> {
        try await target.customers(selection, of: bundleId, after: cursor, limit: limit)
    }

    public func cursor(beforeNewest count: Int, of bundleId: String) async throws -> EventCursor? {
        try await target.cursor(beforeNewest: count, of: bundleId)
    }

    public func endOfEvents(of bundleId: String) async throws -> EventCursor {
        try await target.endOfEvents(of: bundleId)
    }

    public func documents(
        _ selection: DocumentSelection, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<StoredDocument> {
        try await target.documents(selection, after: cursor, limit: limit)
    }

    public func records(
        _ selection: RecordSelection, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<LedgerRecord> {
        try await target.records(selection, after: cursor, limit: limit)
    }

    public func marks() async throws -> HighWaterMarks { try await target.marks() }

    public func apps() async throws -> [String] { try await target.apps() }

    public func beginEpoch(at now: Timestamp) async throws { try await target.beginEpoch(at: now) }

    public func keepsAllDocuments() async throws -> Bool { try await target.keepsAllDocuments() }

    public func documentCount() async throws -> Int { try await target.documentCount() }

    public func notificationHours(
        of bundleId: String?, among count: Int, limit: Int
    ) async throws -> [NotificationHour] {
        try await target.notificationHours(of: bundleId, among: count, limit: limit)
    }

    public func adaptToSize() async throws { try await target.adaptToSize() }

    public func mend() async throws { try await target.mend() }

    public func proveWritable() async throws { try await target.proveWritable() }

    public func prepare(at now: Timestamp) async { await inner.prepare(at: now) }

    public var condition: StorageCondition { inner.condition }

    public func report() async throws -> StorageReport { try await target.report() }

    public func faults() async throws -> [String] { try await target.faults() }

    public func clockDifference(now: @Sendable () -> Timestamp) async throws -> Duration? {
        try await target.clockDifference(now: now)
    }

    public func close() throws { try inner.close() }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import PurchaseLedgerTesting
import Testing

/// The code in the article about storages.
@Suite struct StorageArticle {
    @Test func `the storage of the article meets the contract`() async throws {
        try await LedgerStorageContract {
            let database = Database()
            return (SharedStorage(database: database), SharedStorage(database: database))
        }.run()
    }
}

/// A database in memory. It refuses changes if it was changed after the caller loaded the records.
private actor Database {
    nonisolated let memory = MemoryLedgerStorage()
    private var version = 0
    /// The changes that are being applied.
    private var applying: Task<Void, any Error>?

    func load(_ query: LedgerQuery) async throws -> (LedgerSnapshot, version: Int) {
        // A commit that loads records meanwhile would retry again and again.
        while let applying { _ = await applying.result }
        let version = version
        return (try await memory.commit(query) { .commit(LedgerChanges(), $0) }, version)
    }

    func apply(_ changes: LedgerChanges, ifStill expected: Int) async throws -> Bool {
        guard version == expected else { return false }
        version += 1
        let task = Task { [memory] in try await memory.commit(LedgerQuery()) { _ in .commit(changes, ()) } }
        applying = task
        defer { applying = nil }
        try await task.value
        return true
    }
}

private struct SharedStorage: LedgerStorage {
    let database: Database
    private let maxAttempts = 1000

    init(database: Database) {
        self.database = database
    }

    func commit<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async throws -> Output {
        var query = query
        for _ in 0..<maxAttempts {
            let (snapshot, versions) = try await database.load(query)
            switch try decide(snapshot) {
            case .load(let more):
                query = query.union(more)
            case .commit(let changes, let output):
                if try await database.apply(changes, ifStill: versions) { return output }
            }
        }
        throw LedgerStorageError(.unavailable, "Others changed the same records \(maxAttempts) times")
    }

    func load(_ query: LedgerQuery) async throws -> LedgerSnapshot { try await database.memory.load(query) }

    func events(of bundleId: String, after cursor: EventCursor?, limit: Int) async throws -> EventPage {
        try await database.memory.events(of: bundleId, after: cursor, limit: limit)
    }

    func eraseEvents(before instant: Timestamp, limit: Int) async throws -> Int {
        try await database.memory.eraseEvents(before: instant, limit: limit)
    }

    func chains(
        _ selection: ChainSelection, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<ChainKey> {
        try await database.memory.chains(selection, after: cursor, limit: limit)
    }

    func customers(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<CustomerRecord> {
        try await database.memory.customers(after: cursor, limit: limit)
    }

    func documents(
        _ selection: DocumentSelection, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<StoredDocument> {
        try await database.memory.documents(selection, after: cursor, limit: limit)
    }

    func records(
        _ selection: RecordSelection, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<LedgerRecord> {
        try await database.memory.records(selection, after: cursor, limit: limit)
    }

    func marks() async throws -> HighWaterMarks { try await database.memory.marks() }

    func beginEpoch(at now: Timestamp) async throws { try await database.memory.beginEpoch(at: now) }
    func proveWritable() async throws { try await database.memory.proveWritable() }
}

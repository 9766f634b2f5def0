// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// A storage in memory that a test interferes with at every commit.
struct InterceptedStorage: LedgerStorage {
    var inner: any LedgerStorage = MemoryLedgerStorage()
    /// Called before a commit.
    var before: @Sendable () async throws -> Void = {}
    /// Called after a decision was made and before its changes are committed.
    var onDecision: @Sendable () throws -> Void = {}
    /// Called after a commit.
    var after: @Sendable () throws -> Void = {}

    func commit<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async throws -> Output {
        try await before()
        let output = try await inner.commit(query) { snapshot in
            let decision = try decide(snapshot)
            if case .commit = decision { try onDecision() }
            return decision
        }
        try after()
        return output
    }

    func load(_ query: LedgerQuery) async throws -> LedgerSnapshot { try await inner.load(query) }

    func dueChains(at now: Timestamp, limit: Int) async throws -> [ChainKey] {
        try await inner.dueChains(at: now, limit: limit)
    }

    func events(of bundleId: String, after cursor: EventCursor?, limit: Int) async throws -> EventPage {
        try await inner.events(of: bundleId, after: cursor, limit: limit)
    }

    func eraseEvents(before instant: Timestamp, limit: Int) async throws -> Int {
        try await inner.eraseEvents(before: instant, limit: limit)
    }

    func scanDocuments(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<StoredDocument> {
        try await inner.scanDocuments(after: cursor, limit: limit)
    }

    func scanChains(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<ChainKey> {
        try await inner.scanChains(after: cursor, limit: limit)
    }

    func lastNotification(among count: Int) async throws -> Timestamp? {
        try await inner.lastNotification(among: count)
    }

    func apiKeys() async throws -> [APIKey] { try await inner.apiKeys() }

    func proveWritable() async throws { try await inner.proveWritable() }
}

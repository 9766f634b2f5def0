// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// A storage that fails in every call.
struct FailingStorage: LedgerStorage {
    var error: any Error
    /// Called each time.
    var onUse: @Sendable () -> Void = {}

    private func fail<Output>() throws -> Output {
        onUse()
        throw error
    }

    func load(_ query: LedgerQuery) async throws -> LedgerSnapshot { try fail() }

    func commit<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async throws -> Output { try fail() }

    func dueChains(at now: Timestamp, limit: Int) async throws -> [ChainKey] { try fail() }
    func events(of bundleId: String, after cursor: EventCursor?, limit: Int) async throws -> EventPage { try fail() }
    func eraseEvents(before: Timestamp, limit: Int) async throws -> Int { try fail() }
    func scanDocuments(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<StoredDocument> { try fail() }
    func scanChains(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<ChainKey> { try fail() }
    func lastNotification(among count: Int) async throws -> Timestamp? { try fail() }
    func apiKeys() async throws -> [APIKey] { try fail() }
    func proveWritable() async throws { try fail() as Void }
}

// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
public import PurchaseLedger
import Synchronization

/// A storage around another that does what `LedgerStorage` allows and few storages do often: it runs every decision once in vain,
/// and sometimes another commit comes before the run that counts, so that new customers get other numbers.
public final class UnsteadyStorage: LedgerStorage {
    private let inner: any LedgerStorage
    private let other: any LedgerStorage
    private let commits = Mutex(0)

    /// - Parameter other: Another handle on the same ledger; `nil` for the same one.
    public init(around inner: any LedgerStorage, other: (any LedgerStorage)? = nil) {
        self.inner = inner
        self.other = other ?? inner
    }

    public func commit<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async throws -> Output {
        do {
            let _: Output = try await inner.commit(query) { snapshot in
                guard case .load(let more) = try decide(snapshot) else { throw InVain() }
                return .load(more)
            }
        } catch is InVain {}
        try await disturb()
        return try await inner.commit(query, decide)
    }

    private struct InVain: Error {}

    /// At every third commit, adds a customer to an app that no test knows.
    private func disturb() async throws {
        let count = commits.withLock { count in
            count += 1
            return count
        }
        guard count.isMultiple(of: 3) else { return }
        let id = CustomerID("\(ObjectIdentifier(self)) \(count)", of: "UnsteadyStorage")
        var query = LedgerQuery()
        query.customers = [id]
        try await other.commit(query) { snapshot in
            var changes = LedgerChanges()
            if let number = snapshot.newNumbers[id] {
                changes.customers = [CustomerRecord(Customer(number: number, bundleId: id.bundleId), ids: [id.id])]
            }
            return .commit(changes, ())
        }
    }

    public func load(_ query: LedgerQuery) async throws -> LedgerSnapshot { try await inner.load(query) }

    public func dueChains(at now: Timestamp, limit: Int) async throws -> [ChainKey] {
        try await inner.dueChains(at: now, limit: limit)
    }

    public func events(of bundleId: String, after cursor: EventCursor?, limit: Int) async throws -> EventPage {
        try await inner.events(of: bundleId, after: cursor, limit: limit)
    }

    public func eraseEvents(before instant: Timestamp, limit: Int) async throws -> Int {
        try await inner.eraseEvents(before: instant, limit: limit)
    }

    public func scanDocuments(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<StoredDocument> {
        try await inner.scanDocuments(after: cursor, limit: limit)
    }

    public func scanChains(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<ChainKey> {
        try await inner.scanChains(after: cursor, limit: limit)
    }

    public func lastNotification(among count: Int) async throws -> Timestamp? {
        try await inner.lastNotification(among: count)
    }

    public func apiKeys() async throws -> [APIKey] { try await inner.apiKeys() }

    public func proveWritable() async throws { try await inner.proveWritable() }

    public var concern: String? { inner.concern }
}

// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import PurchaseLedgerTesting
import Synchronization

/// A storage in memory that counts the reads of events, the loads of records, and the listed customers.
final class CountingStorage: ForwardingStorage {
    let inner: any LedgerStorage = MemoryLedgerStorage()
    private let counts = Mutex((reads: 0, loads: 0, customers: 0))

    var reads: Int { counts.withLock { $0.reads } }
    var loads: Int { counts.withLock { $0.loads } }
    var customers: Int { counts.withLock { $0.customers } }

    func customers(
        _ selection: CustomerSelection, of bundleId: String, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<CustomerRecord> {
        let page = try await inner.customers(selection, of: bundleId, after: cursor, limit: limit)
        counts.withLock { $0.customers += page.items.count }
        return page
    }

    func events(of bundleId: String, after cursor: EventCursor?, limit: Int) async throws -> EventPage {
        counts.withLock { $0.reads += 1 }
        return try await inner.events(of: bundleId, after: cursor, limit: limit)
    }

    func load(_ query: LedgerQuery) async throws -> LedgerSnapshot {
        counts.withLock { $0.loads += 1 }
        return try await inner.load(query)
    }
}

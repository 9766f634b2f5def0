// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization

/// Caches API keys, so that not every request reads its key from the ledger. An entry expires after a second, because
/// another process may revoke the key.
final class APIKeyCache: Sendable {
    /// The lifetime of an entry.
    private static let lifetime = Duration.seconds(1)

    /// The maximum number of entries. A full cache is emptied.
    private static let limit = 1000

    private struct Entry {
        var key: APIKey
        var storedAt: Timestamp
    }

    private let entries = Mutex<[String: Entry]>([:])

    /// The key with this public part; `nil` if there is no such key. Only existing keys are cached.
    func key(_ id: String, in ledger: Ledger, at now: Timestamp) async throws -> APIKey? {
        if let entry = entries.withLock({ $0[id] }), Self.isValid(entry, at: now) { return entry.key }
        guard let key = try await ledger.apiKey(id) else { return nil }
        entries.withLock { entries in
            if entries.count >= Self.limit { entries.removeAll() }
            entries[id] = Entry(key: key, storedAt: now)
        }
        return key
    }

    /// Whether an entry is valid. An entry from the future is not valid: the clock was set back after it was stored.
    private static func isValid(_ entry: Entry, at now: Timestamp) -> Bool {
        (.zero..<lifetime).contains(entry.storedAt.duration(to: now))
    }
}

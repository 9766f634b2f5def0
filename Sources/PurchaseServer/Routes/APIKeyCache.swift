// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization

/// A cache of API keys, since apps send requests often. An entry expires after a second, since another process may
/// revoke the key.
final class APIKeyCache: Sendable {
    /// How long an entry is valid.
    private static let lifetime = Duration.seconds(1)

    /// The most entries. A full cache is emptied.
    private static let limit = 1000

    private struct Entry {
        var key: APIKey
        var storedAt: Timestamp
    }

    private let entries = Mutex<[String: Entry]>([:])

    /// The key with this public part; `nil` if there is none. Only keys that exist are cached.
    func key(_ id: String, in ledger: Ledger, at now: Timestamp) async throws -> APIKey? {
        if let entry = entries.withLock({ $0[id] }), Self.isValid(entry, at: now) { return entry.key }
        guard let key = try await ledger.apiKey(id) else { return nil }
        entries.withLock { entries in
            if entries.count >= Self.limit { entries.removeAll() }
            entries[id] = Entry(key: key, storedAt: now)
        }
        return key
    }

    /// An entry from the future, as after the clock was set back, is not valid.
    private static func isValid(_ entry: Entry, at now: Timestamp) -> Bool {
        (.zero..<lifetime).contains(entry.storedAt.duration(to: now))
    }
}

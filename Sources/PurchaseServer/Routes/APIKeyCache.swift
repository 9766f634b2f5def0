// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization

/// Caches API keys, so that not every request reads its key from the ledger. An entry expires after a second, because
/// another process may revoke the key.
final class APIKeyCache: Sendable {
    /// The lifetime of an entry.
    static let lifetime = Duration.seconds(1)

    /// The maximum number of entries. A full cache is emptied.
    private static let limit = 1000

    private struct Entry {
        var key: APIKey
        var storedAt: Timestamp
    }

    private let entries = Mutex<[String: Entry]>([:])

    /// The key with this public part; `nil` if there is no such key. Only existing keys are cached.
    ///
    /// - Parameters:
    ///   - now: The time of the machine. A simulator's time may stand still, and a revoked key would stay valid.
    ///   - age: The maximum age of an entry. An entry from the future is not valid: the clock was set back after it was
    ///     stored.
    func key(
        _ id: String, in ledger: Ledger, at now: Timestamp, within age: Duration = lifetime
    ) async throws -> APIKey? {
        if let entry = entries.withLock({ $0[id] }), (.zero..<age).contains(entry.storedAt.duration(to: now)) {
            return entry.key
        }
        guard let key = try await ledger.apiKey(id) else { return nil }
        entries.withLock { entries in
            if entries.count >= Self.limit { entries.removeAll() }
            entries[id] = Entry(key: key, storedAt: now)
        }
        return key
    }
}

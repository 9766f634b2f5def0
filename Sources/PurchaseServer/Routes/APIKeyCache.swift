// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization

/// API keys that were just looked up, since apps ask often. None is believed for longer than a moment, as another process
/// may have revoked it.
final class APIKeyCache: Sendable {
    /// In milliseconds.
    private static let lifetime: Int64 = 1000

    /// More keys than that are rather looked up.
    private static let limit = 1000

    private struct Known {
        var key: APIKey
        var since: Timestamp
    }

    private let keys = Mutex<[String: Known]>([:])

    /// The key with this public part. What is not there is looked for every time.
    func key(_ id: String, in ledger: Ledger, at now: Timestamp) async throws -> APIKey? {
        if let known = keys.withLock({ $0[id] }), Self.holds(known, at: now) { return known.key }
        guard let key = try await ledger.apiKey(id) else { return nil }
        keys.withLock { keys in
            if keys.count >= Self.limit { keys.removeAll() }
            keys[id] = Known(key: key, since: now)
        }
        return key
    }

    /// Not either where the clock was put back.
    private static func holds(_ known: Known, at now: Timestamp) -> Bool {
        let age = now.milliseconds.subtractingReportingOverflow(known.since.milliseconds)
        return !age.overflow && (0..<lifetime).contains(age.partialValue)
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization

/// The time at which the server last accepted a new version 2 notification. If that time is long ago, the App Store may
/// no longer reach this server.
///
/// Notifications that the ledger already has do not count. After a restart, the time of the newest notification in the
/// ledger counts, even if the server read that notification from the notification history. Version 1 notifications do
/// not count either: only their receipt is signed, so anyone with a receipt can create such a notification.
final class LastNotification: Sendable {
    /// After a restart, the ledger is searched for its newest notification. The search covers at most this number of
    /// the newest documents, because each document costs time. If no notification is among them, the time is unknown.
    private static let searchLimit = 100_000

    private struct State {
        var time: Timestamp?
        var isSearched = false
    }

    private let state = Mutex(State())

    /// Records that a new notification was accepted.
    func accepted(at now: Timestamp) {
        state.withLock { $0 = State(time: now, isSearched: true) }
    }

    /// The time of the last notification; `nil` if unknown.
    ///
    /// - Throws: ``LedgerStorageError`` if a search of the ledger is necessary but fails.
    func time(in ledger: Ledger) async throws -> Timestamp? {
        let known = state.withLock { $0 }
        if known.isSearched { return known.time }
        let found = try await ledger.lastNotification(among: Self.searchLimit)
        return state.withLock { state in
            if !state.isSearched { state = State(time: found, isSearched: true) }
            return state.time
        }
    }
}

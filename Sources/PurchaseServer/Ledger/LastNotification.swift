// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization

/// When the server last accepted a version 2 notification that it did not have yet. If that is long ago, the App Store
/// may no longer reach this server.
///
/// A known notification does not count. Nor does a version 1 notification: only the receipt in it is signed, so anyone
/// who has a receipt can make one.
final class LastNotification: Sendable {
    /// How many of the newest documents are searched after a restart, at most: the search takes a moment. If none of
    /// them is a notification, the time is unknown.
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

    /// The time; `nil` if it is unknown.
    ///
    /// - Throws: ``LedgerStorageError`` if the ledger must be searched and cannot be read.
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

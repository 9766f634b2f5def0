// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization

/// The time at which the last new version 2 notification was accepted. If it is long ago, the App Store may no longer
/// reach this server.
///
/// A known notification does not count, nor does version 1, which is unsigned: anyone who has a copy can send it.
final class LastNotification: Sendable {
    /// The most documents that are searched after a restart, which takes a moment. If none of them is a notification,
    /// the time is unknown.
    private static let searched = 100_000

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
        let found = try await ledger.lastNotification(among: Self.searched)
        return state.withLock { state in
            if !state.isSearched { state = State(time: found, isSearched: true) }
            return state.time
        }
    }
}

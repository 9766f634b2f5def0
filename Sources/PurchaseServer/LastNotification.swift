// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization

/// When a new notification of version 2 was accepted last: if that is long ago, the App Store may not reach this server any
/// more. One that is known already, or a receipt in a notification of version 1, does not count: anyone who has it can send it.
final class LastNotification: Sendable {
    /// How many documents are searched after a restart: a moment's work. If none of them is a notification, none is known.
    private static let searched = 100_000

    private struct State {
        var time: Timestamp?
        var isSearched = false
    }

    private let state = Mutex(State())

    func accepted(at now: Timestamp) {
        state.withLock { $0 = State(time: now, isSearched: true) }
    }

    /// The time; `nil` if none is known.
    ///
    /// - Throws: ``LedgerStorageError`` if it has to be searched and the ledger cannot be read.
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

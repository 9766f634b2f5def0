// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// The transactions that the histories of a backfill had, so that none of them needs a question of its own.
final class SeenTransactions: Sendable {
    /// The most transactions that are remembered, in some 50 MB. If there are more, it begins anew, which
    /// costs a request for each that is named later.
    private static let capacity = 500_000

    private let ids = Mutex<Set<String>>([])

    func insert(_ new: some Sequence<String>) {
        ids.withLock { ids in
            if ids.count >= Self.capacity { ids.removeAll() }
            ids.formUnion(new)
        }
    }

    func contains(_ id: String) -> Bool { ids.withLock { $0.contains(id) } }
}

// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import Synchronization

/// Decides whether notifications are looked up before they are stored.
///
/// The App Store sends a notification again only if it was not answered with success. So it is taken to be new, with
/// the tokens in it: the look-up of three documents is a tenth of what PostgreSQL does for an intake. If one of them is
/// stored, its key refuses the commit, and the group is decided about again with what is stored. From then on all are
/// looked up, as when a whole history is sent again, until none of a group was stored.
///
/// The key of a document contains its ``PurchaseLedger/Evidence/home``. So no version may find another home for a
/// document than the one that stored it.
final class RepeatedNotifications: Sendable {
    private let areExpected = Atomic(false)

    /// The documents that are taken to be new, and must be stored if the decision is to count.
    func presumedNew(of queries: [LedgerQuery]) -> Set<Provenance> {
        areExpected.load(ordering: .relaxed) ? [] : queries.notifications
    }

    /// Notes that one may have been stored. The key of something else may have been the cause: then a group is looked
    /// up for nothing.
    func noteRefusal() { areExpected.store(true, ordering: .relaxed) }

    /// Notes what was stored of those that were looked up.
    func noteLookUp(_ queries: [LedgerQuery], stored names: Set<Provenance>) {
        guard areExpected.load(ordering: .relaxed) else { return }
        let notifications = queries.notifications
        guard !notifications.isEmpty else { return }
        areExpected.store(!notifications.isDisjoint(with: names), ordering: .relaxed)
    }
}

extension [LedgerQuery] {
    /// The arriving notifications, and those tokens in them that arrive too.
    fileprivate var notifications: Set<Provenance> {
        var names: Set<Provenance> = []
        for query in self {
            var parts: Set<Provenance> = []
            for document in query.arriving where document.kind == .notification {
                names.insert(document.provenance)
                for part in document.parts { parts.insert(part.provenance) }
            }
            for document in query.arriving where parts.contains(document.provenance) {
                names.insert(document.provenance)
            }
        }
        return names
    }
}

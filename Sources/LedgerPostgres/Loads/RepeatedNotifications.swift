// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import Synchronization

/// Decides whether to look up notifications before they are stored.
///
/// The App Store repeats a notification only if the server did not answer with success. A notification is therefore
/// presumed new, together with its tokens. The presumption saves the look-up of three documents, a tenth of
/// PostgreSQL's work for an intake. If a document presumed new is already stored, its primary key rejects the commit,
/// and the batch is decided again with a look-up. From then on all notifications are looked up, for example while a
/// whole history is sent again. The look-ups end after a batch whose notifications are all new.
///
/// The primary key of a document includes its ``PurchaseLedger/Evidence/home``. The key of a repeated document is
/// therefore rejected only if every version of this software computes the same home for the document.
final class RepeatedNotifications: Sendable {
    private let areExpected = Atomic(false)

    /// The documents presumed new. The decision must store each of them, or the batch is decided again with a look-up.
    func presumedNew(of queries: [LedgerQuery]) -> Set<Provenance> {
        areExpected.load(ordering: .relaxed) ? [] : queries.notifications
    }

    /// Notes that a notification may be stored already. A different unique key may have caused the refusal; then the
    /// next batch is looked up needlessly.
    func noteRefusal() { areExpected.store(true, ordering: .relaxed) }

    /// Notes which documents of a looked-up batch were stored already.
    func noteLookUp(_ queries: [LedgerQuery], stored names: Set<Provenance>) {
        guard areExpected.load(ordering: .relaxed) else { return }
        let notifications = queries.notifications
        guard !notifications.isEmpty else { return }
        areExpected.store(!notifications.isDisjoint(with: names), ordering: .relaxed)
    }
}

extension [LedgerQuery] {
    /// The arriving notifications, and their tokens among the arriving documents.
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

// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import Synchronization

/// Decides whether to look up notifications before they are stored.
///
/// The App Store repeats a notification only if the server did not answer with success. A notification is therefore
/// presumed new, together with its signed parts. This saves looking up three documents (the notification, its signed
/// transaction and its signed renewal info), about a tenth of PostgreSQL's work to record a notification. If a document
/// presumed new is already stored, its primary key rejects the commit. The batch of commits is then decided again, and
/// its documents are looked up. From then on all notifications are looked up, for example while a whole history is sent
/// again. The look-ups end after a batch in which all notifications and all their signed parts are new.
///
/// The primary key of a document includes the document's ``PurchaseLedger/Evidence/home``. The key of a repeated
/// document is therefore rejected only if the earlier and the present version of this software compute the same home
/// for the document.
final class RepeatedNotifications: Sendable {
    private let areExpected = Atomic(false)

    /// The documents presumed new. The decision must store each of them, or the batch is decided again with a look-up.
    func presumedNew(of queries: [LedgerQuery]) -> Set<Provenance> {
        areExpected.load(ordering: .relaxed) ? [] : queries.notifications
    }

    /// Begins to look up all notifications, because the database has refused a commit for a repeated unique key. If the
    /// repeated key was the key of a different table, the next notifications are looked up needlessly.
    func noteRefusal() { areExpected.store(true, ordering: .relaxed) }

    /// Ends the look-ups if no notification in a looked-up batch was stored already, and no signed part of a
    /// notification.
    func noteLookUp(_ queries: [LedgerQuery], stored names: Set<Provenance>) {
        guard areExpected.load(ordering: .relaxed) else { return }
        let notifications = queries.notifications
        guard !notifications.isEmpty else { return }
        areExpected.store(!notifications.isDisjoint(with: names), ordering: .relaxed)
    }
}

extension [LedgerQuery] {
    /// The notifications among the arriving documents, and the signed parts of notifications if the parts also arrive
    /// as documents.
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

// SPDX-License-Identifier: Apache-2.0

// The names of customers in events. An event has only the number of its customer. Storages name the customers that
// still exist. The names of merged and deleted customers come from the records about them.

import AppStoreModel

extension LedgerStorage {
    /// The same page as ``events(of:after:limit:)``, with the names of merged and deleted customers.
    ///
    /// - Parameter now: The time that decides whether a deletion is recent enough for a name. With `nil`, deleted
    ///   customers have no names.
    func namedEvents(
        of bundleId: String, after cursor: EventCursor?, limit: Int, at now: Timestamp?
    ) async throws -> EventPage {
        var page = try await events(of: bundleId, after: cursor, limit: limit)
        let keys = page.keysOfFormerCustomers
        guard !keys.isEmpty else { return page }
        page.name(from: try await load(LedgerQuery(keys.map(LedgerKey.record))).records, at: now)
        return page
    }
}

extension EventPage {
    /// The keys of the records about customers that have no id, and about merged customers.
    fileprivate var keysOfFormerCustomers: Set<RecordKey> {
        var keys: Set<RecordKey> = []
        for event in events {
            if let customer = event.customer, customerIds[customer] == nil {
                keys.insert(MergeNote.key(customer))
                if event.kind == .customerDeleted { keys.insert(DeletedCustomer.key(customer)) }
            }
            if let merged = event.mergedCustomer { keys.insert(MergeNote.key(merged)) }
        }
        return keys
    }

    /// Names the merged and deleted customers by their own ids.
    fileprivate mutating func name(from records: [RecordKey: LedgerRecord], at now: Timestamp?) {
        for record in records.values {
            if let note = MergeNote(mergeIn: record) {
                formerIds[note.customer] = note.ids.first
            } else if let now, !record.isDue(at: now), let deleted = DeletedCustomer(deletionIn: record) {
                formerIds[deleted.customer] = deleted.firstId
                deletedIds[deleted.customer] = deleted.requestedId
                allDeletedIds[deleted.customer] = deleted.ids
            }
        }
    }
}

extension MergeNote {
    fileprivate init?(mergeIn record: LedgerRecord) {
        guard record.key.kind == Self.recordKind else { return nil }
        self.init(readable: record)
    }
}

extension DeletedCustomer {
    fileprivate init?(deletionIn record: LedgerRecord) {
        guard record.key.kind == Self.recordKind else { return nil }
        self.init(readable: record)
    }
}

extension LedgerEvent {
    /// The customer that was merged into ``customer``; `nil` for other kinds of events.
    package var mergedCustomer: Customer? {
        guard kind == .customersMerged, let number = content?.mergedCustomer else { return nil }
        return Customer(number: number, bundleId: scope.bundleId)
    }
}

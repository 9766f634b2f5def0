// SPDX-License-Identifier: Apache-2.0

// The names of customers in events. An event has only the number of its customer. Storages name the customers that
// still exist. The names of merged and deleted customers, and removed ids, come from the records about them.

import AppStoreModel

extension LedgerStorage {
    /// The same page as ``events(of:after:limit:)``, with the names of merged and deleted customers, removed ids, and
    /// the present ids and attributes of customers in events about them.
    ///
    /// - Parameter now: The time that decides whether a deletion or removal is recent enough for a name. With `nil`,
    ///   deleted customers and removed ids have no names.
    func namedEvents(
        _ selection: EventSelection?, of bundleId: String, after cursor: EventCursor?, limit: Int, at now: Timestamp?
    ) async throws -> EventPage {
        var page = try await events(selection, of: bundleId, after: cursor, limit: limit)
        let keys = page.keysOfFormerCustomers.map(LedgerKey.record) + page.keysOfPresentCustomers
        guard !keys.isEmpty else { return page }
        let found = try await load(LedgerQuery(keys))
        page.name(from: found.records, at: now)
        page.allIds = found.customers.mapValues(\.ids)
        return page
    }
}

extension EventPage {
    /// The keys of the records about customers that have no id, about merged customers, and about removed ids.
    fileprivate var keysOfFormerCustomers: Set<RecordKey> {
        var keys: Set<RecordKey> = []
        for event in events {
            if let customer = event.customer, customerIds[customer] == nil {
                keys.insert(MergeNote.key(customer))
                if event.kind == .customerDeleted { keys.insert(DeletedCustomer.key(customer)) }
            }
            if let merged = event.mergedCustomer {
                keys.formUnion([MergeNote.key(merged), DeletedCustomer.key(merged)])
            }
            if let customer = event.customer, event.removedId != nil { keys.insert(RemovedIds.key(customer)) }
        }
        return keys
    }

    /// The keys of the customers in events about ids or attributes.
    fileprivate var keysOfPresentCustomers: [LedgerKey] {
        events.compactMap { event in
            guard let customer = event.customer, let id = customerIds[customer] else { return nil }
            if event.kind == .attributesChanged { return .record(CustomerAttributes.key(customer)) }
            guard event.kind.known?.changesIds == true else { return nil }
            return .customerID(CustomerID(id, of: customer.bundleId))
        }
    }

    /// Names the merged and deleted customers by their own ids, and the removed ids.
    fileprivate mutating func name(from records: [RecordKey: LedgerRecord], at now: Timestamp?) {
        for record in records.values {
            if let note = MergeNote(mergeIn: record) {
                formerIds[note.customer] = note.name
            } else if let now, !record.isDue(at: now), let deleted = DeletedCustomer(deletionIn: record) {
                formerIds[deleted.customer] = deleted.firstId
                deletedIds[deleted.customer] = deleted.requestedId
                allDeletedIds[deleted.customer] = deleted.ids
            } else if let now, let removed = RemovedIds(removalsIn: record) {
                let ids = removed.removals.compactMap { removal in
                    removed.id(removal.number, at: now).map { (removal.number, $0) }
                }
                removedIds[removed.customer] = Dictionary(ids) { first, _ in first }
            } else if record.key.kind == CustomerAttributes.recordKind {
                if let known = CustomerAttributes(readable: record) { attributes[known.customer] = known }
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

extension RemovedIds {
    fileprivate init?(removalsIn record: LedgerRecord) {
        guard record.key.kind == Self.recordKind else { return nil }
        self.init(readable: record)
    }
}

extension LedgerEvent {
    /// The number of the id that was taken off ``customer``; `nil` for other kinds of events.
    var removedId: Int64? { kind == .aliasRemoved ? content?.removedId : nil }

    /// The customer that was merged into ``customer``; `nil` for other kinds of events.
    package var mergedCustomer: Customer? {
        guard kind == .customersMerged, let number = content?.mergedCustomer else { return nil }
        return Customer(number: number, bundleId: scope.bundleId)
    }
}

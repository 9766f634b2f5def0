// SPDX-License-Identifier: Apache-2.0

// The ids that were taken off a customer.

import AppStoreModel

/// The record of the ids that corrections took off a customer, each kept for ``DeletedCustomer/lifetime``.
///
/// The event of a removal has the number of the id, and the record has the id. A reader of events that knew a customer
/// by the id, before a merge, thereby learns that the id names this customer no longer. The record is due when the
/// lifetime of an id ends.
struct RemovedIds: Hashable, RecordValue {
    struct Removal: Hashable {
        /// The number of the id in events. A number is never used again for the same customer.
        let number: Int64
        let id: String
        /// The end of the lifetime.
        let end: Timestamp
    }

    let customer: Customer
    private(set) var removals: [Removal]

    /// The maximum number of ids, for the same reason as ``DeletedCustomer/maxIds``. If more are taken off within a
    /// lifetime, the oldest are erased.
    static let maxRemovals = 40

    static let recordKind = RecordKind(rawValue: "removedIds")

    static func key(_ customer: Customer) -> RecordKey { customer.key(recordKind) }

    init(_ customer: Customer) {
        self.customer = customer
        removals = []
    }

    /// Adds an id that is taken off now.
    ///
    /// - Returns: The number of the id.
    mutating func add(_ id: String, at now: Timestamp) -> Int64 {
        // The time, so that the numbers of erased ids are not used again.
        let number = max(now.milliseconds, (removals.last?.number ?? .min).addingReportingOverflow(1).partialValue)
        removals.append(Removal(number: number, id: id, end: now.advanced(by: DeletedCustomer.lifetime)))
        removals = Array(removals.suffix(Self.maxRemovals))
        return number
    }

    /// Removes the ids whose lifetime has ended.
    mutating func forget(at now: Timestamp) { removals.removeAll { $0.end <= now } }

    /// The id with a number; `nil` if its lifetime has ended.
    func id(_ number: Int64, at now: Timestamp) -> String? {
        removals.first { $0.number == number && now < $0.end }?.id
    }

    private enum Member {
        static let number = "number"
        static let id = "id"
        static let end = "end"
    }

    @inline(never)
    init(_ record: LedgerRecord) throws(LedgerStorageError) {
        customer = try Customer(record.key)
        guard let items = JSONValue(readable: record.payload)?.array else {
            throw LedgerStorageError(unreadable: record.key)
        }
        removals = []
        for item in items {
            guard let number = item[Member.number]?.integer, let id = item[Member.id]?.string,
                let end = item[Member.end]?.integer
            else { throw LedgerStorageError(unreadable: record.key) }
            removals.append(Removal(number: number, id: id, end: Timestamp(milliseconds: end)))
        }
    }

    var record: LedgerRecord {
        let items = removals.map { removal in
            JSONValue.object([
                JSONValue.Member(Member.number, .number("\(removal.number)")),
                JSONValue.Member(Member.id, .string(removal.id)),
                JSONValue.Member(Member.end, .number("\(removal.end.milliseconds)")),
            ])
        }
        let payload = Array(JSONValue.array(items).compactText.utf8)
        return LedgerRecord(Self.key(customer), dueAt: removals.map(\.end).min(), payload: payload)
    }
}

// SPDX-License-Identifier: Apache-2.0

/// The note of a grant (``CustomerGrant``), stored under the grant's id. With the note a grant is found by its id, and
/// a grant whose id the client chose is made only once. The grant itself is in its customer's record.
struct GrantNote: RecordValue {
    /// The id of the grant.
    let id: String
    /// An id of the customer with the grant. After a merge, it still is an id of the customer.
    let customer: CustomerID

    init(_ id: String, of customer: CustomerID) {
        self.id = id
        self.customer = customer
    }

    /// The kind of the records that hold notes of grants.
    static let recordKind = RecordKind(rawValue: "grant")

    /// The key of the record for the grant of an app with an id.
    static func key(_ id: String, of bundleId: String) -> RecordKey { RecordKey(recordKind, id, of: .app(bundleId)) }

    init(_ record: LedgerRecord) throws(LedgerStorageError) {
        guard case .app(let bundleId) = record.key.owner,
            let customer = String(validating: record.payload, as: UTF8.self), !customer.isEmpty
        else { throw LedgerStorageError(unreadable: record.key) }
        id = record.key.name
        self.customer = CustomerID(customer, of: bundleId)
    }

    var record: LedgerRecord {
        LedgerRecord(Self.key(id, of: customer.bundleId), payload: Array(customer.id.utf8))
    }
}

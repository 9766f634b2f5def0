// SPDX-License-Identifier: Apache-2.0

// The records about customers that no longer exist, because they were merged into another customer or deleted. A later
// event may concern such a customer, and a merge can be undone with its record.

import AppStoreModel

extension Customer {
    /// The name of the customer's records.
    private var recordName: String { "\(number)" }

    /// - Parameter key: The key of a record about a customer.
    init(_ key: RecordKey) throws(LedgerStorageError) {
        guard case .app(let bundleId) = key.owner, let number = Int64(key.name), "\(number)" == key.name else {
            throw LedgerStorageError(unreadable: key)
        }
        self.init(number: number, bundleId: bundleId)
    }

    /// The key of a record of a kind about the customer.
    func key(_ kind: RecordKind) -> RecordKey { RecordKey(kind, recordName, of: .app(bundleId)) }
}

// MARK: - Merges

/// The record of a merge. It names the customer that was merged into another customer, and lists everything that the
/// customer brought along and that the other customer still has.
///
/// An id or a purchase that a correction takes off the other customer is removed from the notes of all merges into this
/// customer. No note therefore has an id that belongs to nobody or to a third customer, and the erasure of a customer
/// finds all its ids.
struct MergeNote: Hashable, RecordValue {
    /// The customer that was merged into another customer.
    let customer: Customer
    /// The ids of ``customer`` at the time of the merge that the other customer still has, the first id first. After
    /// the merge was undone, the first id of ``customer`` alone.
    private(set) var ids: [String]
    /// Whether events name ``customer`` by the first of the ids. If this id is taken off the other customer, they name
    /// ``customer`` no longer. The next id may be the name of an earlier customer.
    private var isNamed = true
    /// An id of the customer that has the purchases now; `nil` after the merge was undone.
    var into: String?
    /// The time of the merge.
    var at: Timestamp
    /// The purchases that only ``customer`` owned, of the two customers. A purchase that the other customer lost by a
    /// claim is still among them.
    var purchases: Set<ChainKey> = []
    /// The purchases that both customers owned.
    var sharedPurchases: Set<ChainKey> = []
    /// The numbers of the customers that had been merged into ``customer`` before, without those whose merge was
    /// undone.
    var earlier: [Int64] = []
    /// Whether the note lists all ids and purchases. If not, the merge cannot be undone.
    var isComplete = true

    /// The maximum number of purchases in a note. A record is loaded as a whole, and customers have few purchases.
    static let maxPurchases = 500

    static let recordKind = RecordKind(rawValue: "merge")

    static func key(_ customer: Customer) -> RecordKey { customer.key(recordKind) }

    init(_ customer: CustomerRecord, into other: CustomerRecord, at now: Timestamp) {
        self.customer = customer.customer
        ids = customer.ids
        into = other.ids.first
        at = now
    }

    /// Whether a purchase, or a purchase that was migrated to it, is among some purchases of the note.
    static func contains(_ chain: Chain, in purchases: Set<ChainKey>) -> Bool {
        let names = chain.predecessors.union([chain.key.name])
        return names.contains { purchases.contains(ChainKey($0, in: chain.key.scope)) }
    }

    /// The members of the JSON object in the record. Times are milliseconds since 1970. Purchases are grouped by
    /// environment.
    private enum Member {
        static let ids = "ids"
        static let into = "into"
        static let at = "at"
        static let purchases = "purchases"
        static let sharedPurchases = "sharedPurchases"
        static let earlier = "earlier"
        static let isComplete = "isComplete"
        static let isNamed = "isNamed"
    }

    init(_ record: LedgerRecord) throws(LedgerStorageError) {
        customer = try Customer(record.key)
        guard let json = JSONValue(readable: record.payload), let ids = json[Member.ids]?.array?.compactMap(\.string),
            let at = json[Member.at]?.integer, let earlier = json[Member.earlier]?.array,
            let purchases = Self.purchases(json[Member.purchases], of: customer.bundleId),
            let sharedPurchases = Self.purchases(json[Member.sharedPurchases], of: customer.bundleId)
        else { throw LedgerStorageError(unreadable: record.key) }
        self.ids = ids
        self.at = Timestamp(milliseconds: at)
        isComplete = json[Member.isComplete] == .bool(true)
        isNamed = json[Member.isNamed] != .bool(false)
        self.purchases = purchases
        self.sharedPurchases = sharedPurchases
        into = json[Member.into]?.string
        self.earlier = earlier.compactMap(\.integer)
    }

    /// The record. If it exceeded the limit on records, it has the first id and no purchases.
    var record: LedgerRecord {
        let record = LedgerRecord(Self.key(customer), payload: Array(json.compactText.utf8))
        guard record.payload.count > LedgerRecord.payloadLimit else { return record }
        var note = self
        note.ids = Array(ids.prefix(1))
        note.removePurchases()
        return LedgerRecord(Self.key(customer), payload: Array(note.json.compactText.utf8))
    }

    /// The id by which events name ``customer``; `nil` if it was taken off the other customer.
    var name: String? { isNamed ? ids.first : nil }

    /// Removes the ids that the other customer does not have.
    mutating func keepIds(of other: CustomerRecord) {
        let first = ids.first
        ids.removeAll { id in !other.ids.contains { $0.isSameID(as: id) } }
        if ids.first != first { isNamed = false }
    }

    /// Reduces the note to the name of the customer, which exists again.
    mutating func noteUndoing(as customer: CustomerRecord) {
        into = nil
        ids = Array(customer.ids.prefix(1))
        isNamed = true
        earlier = []
        removePurchases()
    }

    /// Removes the purchases, so that the merge cannot be undone.
    mutating func removePurchases() {
        purchases = []
        sharedPurchases = []
        isComplete = false
    }

    private var json: JSONValue {
        var members = [
            JSONValue.Member(Member.ids, .array(ids.map { .string($0) })),
            JSONValue.Member(Member.at, .number("\(at.milliseconds)")),
            JSONValue.Member(Member.purchases, Self.json(purchases)),
            JSONValue.Member(Member.sharedPurchases, Self.json(sharedPurchases)),
            JSONValue.Member(Member.earlier, .array(earlier.map { .number("\($0)") })),
            JSONValue.Member(Member.isComplete, .bool(isComplete)),
        ]
        if let into { members.append(JSONValue.Member(Member.into, .string(into))) }
        if !isNamed { members.append(JSONValue.Member(Member.isNamed, .bool(false))) }
        return .object(members)
    }

    private static func json(_ purchases: Set<ChainKey>) -> JSONValue {
        let groups = Dictionary(grouping: purchases.sorted(), by: \.scope.environment.rawValue)
        return .object(
            groups.sorted { $0.key < $1.key }.map { environment, keys in
                JSONValue.Member(environment, .array(keys.map { .string($0.name) }))
            })
    }

    private static func purchases(_ json: JSONValue?, of bundleId: String) -> Set<ChainKey>? {
        guard let members = json?.members else { return nil }
        var purchases: Set<ChainKey> = []
        for member in members {
            guard let environment = Environment(rawValue: member.name), let names = member.value.array else {
                return nil
            }
            let scope = LedgerScope(bundleId: bundleId, environment: environment)
            purchases.formUnion(names.compactMap(\.string).map { ChainKey($0, in: scope) })
        }
        return purchases
    }
}

/// The numbers of all customers that were merged into a customer, in the order of the merges. Customers that had been
/// merged into a merged customer are among them.
struct MergedCustomers: Hashable, RecordValue {
    let customer: Customer
    var numbers: [Int64]

    /// The maximum number of customers in the list. People have a few accounts. Of a customer that stands for many
    /// others, such as all visitors without an account, the ledger forgets the oldest merges.
    static let limit = 500

    static let recordKind = RecordKind(rawValue: "merges")

    static func key(_ customer: Customer) -> RecordKey { customer.key(recordKind) }

    init(_ customer: Customer, _ numbers: [Int64]) {
        self.customer = customer
        self.numbers = numbers
    }

    init(_ record: LedgerRecord) throws(LedgerStorageError) {
        customer = try Customer(record.key)
        guard let numbers = JSONValue(readable: record.payload)?.array else {
            throw LedgerStorageError(unreadable: record.key)
        }
        self.numbers = numbers.compactMap(\.integer)
    }

    var record: LedgerRecord {
        let json = JSONValue.array(numbers.map { .number("\($0)") })
        return LedgerRecord(Self.key(customer), payload: Array(json.compactText.utf8))
    }
}

// MARK: - Deletions

/// The record of a deleted customer's ids, which is kept for ``lifetime``.
///
/// The record is due when its lifetime ends, and is then erased. Until then, readers of events learn from it which
/// customer was deleted. A merged customer has such a record after its ``MergeNote`` was erased: the event of the merge
/// still names it.
struct DeletedCustomer: Hashable, RecordValue {
    let customer: Customer
    /// The customer's first id. Events named the customer by it.
    var firstId: String
    /// The id with which the deletion was requested.
    var requestedId: String
    /// The ids at the time of the deletion, then the ids that were taken off shortly before (``RemovedIds``) and belong
    /// to no customer; at most ``maxIds``. Some of them may be from merged customers, whom earlier events named by
    /// them.
    var ids: [String]
    /// The end of the lifetime.
    var end: Timestamp

    /// How long the ids are kept. A reader of events that is down for a vacation still learns of the deletion. Privacy
    /// law gives a month to complete an erasure.
    static let lifetime = Duration.seconds(30 * 86_400)

    static let recordKind = RecordKind(rawValue: "deletedCustomer")

    /// The maximum number of ids. An id has at most 256 bytes, up to six times as many in JSON, and a record 64 KiB.
    /// Further ids are erased at once. A reader loses nothing by it: only first ids name customers in events, and the
    /// event of each merge names the merged customer.
    static let maxIds = 40

    static func key(_ customer: Customer) -> RecordKey { customer.key(recordKind) }

    /// - Parameter removedIds: The ids that were taken off the customer and belong to no customer.
    init(_ record: CustomerRecord, requestedId: String, removedIds: [String] = [], at now: Timestamp) {
        customer = record.customer
        firstId = record.ids.first ?? requestedId
        self.requestedId = requestedId
        ids = Array((record.ids + removedIds).prefix(Self.maxIds))
        end = now.advanced(by: Self.lifetime)
    }

    /// The record of a merged customer whose ``MergeNote`` is erased. `nil` if events do not name the customer.
    init?(_ note: MergeNote, at now: Timestamp) {
        guard let id = note.name else { return nil }
        self.init(CustomerRecord(note.customer, ids: [id]), requestedId: id, at: now)
    }

    private enum Member {
        static let firstId = "firstId"
        static let requestedId = "requestedId"
        static let ids = "ids"
    }

    init(_ record: LedgerRecord) throws(LedgerStorageError) {
        customer = try Customer(record.key)
        guard let json = JSONValue(readable: record.payload), let firstId = json[Member.firstId]?.string,
            let requestedId = json[Member.requestedId]?.string, let ids = json[Member.ids]?.array,
            let end = record.dueAt
        else { throw LedgerStorageError(unreadable: record.key) }
        self.firstId = firstId
        self.requestedId = requestedId
        self.ids = ids.compactMap(\.string)
        self.end = end
    }

    var record: LedgerRecord {
        let json = JSONValue.object([
            JSONValue.Member(Member.firstId, .string(firstId)),
            JSONValue.Member(Member.requestedId, .string(requestedId)),
            JSONValue.Member(Member.ids, .array(ids.map { .string($0) })),
        ])
        return LedgerRecord(Self.key(customer), dueAt: end, payload: Array(json.compactText.utf8))
    }
}

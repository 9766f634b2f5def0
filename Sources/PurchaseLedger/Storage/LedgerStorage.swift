// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Where a ledger is kept. A storage knows no rules: it loads records, and commits what was decided about them.
///
/// `LedgerStorageContract` in `PurchaseLedgerTesting` tests everything that is required here.
public protocol LedgerStorage: Sendable {
    /// Loads one consistent state of what a query names. It contains everything that was committed before.
    ///
    /// - Throws: ``LedgerStorageError``, or `CancellationError` if the task was cancelled before the load began.
    func load(_ query: LedgerQuery) async throws -> LedgerSnapshot

    /// Loads what a query names, decides and commits.
    ///
    /// The changes are durable, all of them, once this returns. If it throws, none of them is. Nothing that `decide` looked at was
    /// changed by others in between: either the storage prevents it, or it notices, loads again and decides again. Therefore
    /// `decide` must be pure: it may run several times, and only the changes of the last run count. A task that is cancelled
    /// meanwhile still learns what became of its changes.
    ///
    /// - Throws: What `decide` throws, or ``LedgerStorageError``.
    func commit<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async throws -> Output

    /// The chains whose answer may have changed by itself: those whose report has a `nextChange` not after `now`, the earliest
    /// first, at most `limit`.
    func dueChains(at now: Timestamp, limit: Int) async throws -> [ChainKey]

    /// The events of one app behind a cursor, oldest first, at most `limit`.
    ///
    /// No event ever appears before a cursor that was returned, and events of one chain keep the order in which they were
    /// decided.
    ///
    /// - Parameter cursor: `nil` for the beginning.
    /// - Throws: ``EventCursorError`` if the cursor is not one of this ledger, or if events behind it were erased.
    func events(of bundleId: String, after cursor: EventCursor?, limit: Int) async throws -> EventPage

    /// Erases events that were recorded before an instant, at most `limit`.
    ///
    /// - Returns: How many were erased.
    func eraseEvents(before: Timestamp, limit: Int) async throws -> Int

    /// The documents behind a cursor, at most `limit`, in any order. A document that was stored when the scan began is found once.
    ///
    /// - Parameter cursor: `nil` for the beginning.
    func scanDocuments(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<StoredDocument>

    /// The chains behind a cursor, at most `limit`, in any order: all that have facts or documents, also if these were erased.
    func scanChains(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<ChainKey>

    /// When the newest notification arrived; `nil` if none of the last `count` documents is one.
    func lastNotification(among count: Int) async throws -> Timestamp?

    /// All API keys, the one that was stored last at the end.
    func apiKeys() async throws -> [APIKey]

    /// Writes something that no one reads, to find out whether writing is possible.
    func proveWritable() async throws

    /// What an operator should look at although the storage works, as a sentence; `nil` if there is nothing.
    var concern: String? { get }
}

extension LedgerStorage {
    public var concern: String? { nil }
}

/// Decides what becomes of the records in a snapshot.
public typealias LedgerDecider<Output: Sendable> = @Sendable (LedgerSnapshot) throws -> LedgerDecision<Output>

public enum LedgerDecision<Output: Sendable>: Sendable {
    /// Commit these changes, and return the output.
    case commit(LedgerChanges, Output)
    /// Load this too, and decide again.
    case load(LedgerQuery)
}

extension LedgerDecision {
    /// How often a decision may ask for more. What it looks at follows from what it has loaded in one or two steps.
    private static var mostLoads: Int { 8 }

    /// Decides, loads what the decision asks for besides, and commits, for storages that let no one else write meanwhile.
    ///
    /// - Throws: What `decide`, `load` and `commit` throw.
    public static func run(
        _ query: LedgerQuery, _ decide: LedgerDecider<Output>, load: (LedgerQuery) throws -> LedgerSnapshot,
        commit: (LedgerChanges) throws -> Void
    ) throws -> Output {
        var query = query
        for _ in 0..<mostLoads {
            switch try decide(try load(query)) {
            case .load(let more): query = query.union(more)
            case .commit(let changes, let output):
                try commit(changes)
                return output
            }
        }
        throw LedgerStorageError(.unavailable, "A decision asked for more and more")
    }
}

/// Why a storage could not do what it was asked to. Nothing was written, and the same may succeed later.
public struct LedgerStorageError: Error, CustomStringConvertible {
    @nonexhaustive
    public enum Code: String, Sendable {
        /// There is no more room on the disk.
        case full
        /// The storage can be read but not written.
        case readOnly
        /// The storage is not what it should be: it was damaged, or written by a newer version.
        case damaged
        /// Anything else, such as a database that does not answer.
        case unavailable
    }

    public var code: Code
    public var message: String

    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { "\(code.rawValue): \(message)" }
}

// MARK: - What is loaded

/// What a decision looks at. A storage loads all of it at once.
public struct LedgerQuery: Hashable, Sendable {
    public var chains: Set<ChainKey> = []
    /// Transactions whose chains are wanted, if any has them.
    public var transactions: Set<TransactionKey> = []
    /// Customers by one of their ids.
    public var customers: Set<CustomerID> = []
    /// The environments in which every chain of the customers above is wanted.
    public var holdings: Set<Environment> = []
    /// Whether the customers who own the chains of the snapshot are wanted too.
    public var owners = false
    /// Documents of which it matters whether they are stored.
    public var names: Set<Provenance> = []
    /// Documents that the decision may store. A storage that compresses documents can do so before it is the decision's turn.
    public var arriving: [Evidence] = []
    /// Documents that are wanted with their content.
    public var documents: Set<Provenance> = []
    /// Chains of which the names of all documents are wanted.
    public var evidence: Set<ChainKey> = []
    /// Apps, by bundle id, of which the catalogue is wanted with which their chains were evaluated last.
    public var catalogues: Set<String> = []

    public init() {}

    /// What is in either.
    public func union(_ other: LedgerQuery) -> LedgerQuery {
        var query = self
        query.chains.formUnion(other.chains)
        query.transactions.formUnion(other.transactions)
        query.customers.formUnion(other.customers)
        query.holdings.formUnion(other.holdings)
        query.owners = owners || other.owners
        query.names.formUnion(other.names)
        query.arriving += other.arriving
        query.documents.formUnion(other.documents)
        query.evidence.formUnion(other.evidence)
        query.catalogues.formUnion(other.catalogues)
        return query
    }
}

/// One consistent state of what a query named. What is not stored is not in it.
public struct LedgerSnapshot: Sendable {
    /// All that was named.
    public var query: LedgerQuery
    public var chains: [ChainKey: ChainRecord] = [:]
    /// The chain of each transaction. If documents name different ones, as after a migration, the one that the newest of them names.
    public var transactions: [TransactionKey: ChainKey] = [:]
    /// The numbers of the customers that were named by an id.
    public var ids: [CustomerID: Customer] = [:]
    public var customers: [Customer: CustomerRecord] = [:]
    /// For each id that is no customer's yet, if this is for a decision: the number that a customer with this id gets. It was never
    /// another customer's.
    public var newNumbers: [CustomerID: Int64] = [:]
    /// Those of `query.names` that are stored, and can be read.
    public var names: Set<Provenance> = []
    public var documents: [Provenance: StoredDocument] = [:]
    public var evidence: [ChainKey: [DocumentReference]] = [:]
    /// By bundle id: what was committed last as ``LedgerChanges/catalogues``.
    public var catalogues: [String: [UInt8]] = [:]

    public init(_ query: LedgerQuery) {
        self.query = query
    }

    /// The customer who has an id; `nil` if there is none.
    public func customer(_ id: CustomerID) -> CustomerRecord? { ids[id].flatMap { customers[$0] } }

    /// The chains of a customer that were loaded, in the order of their original transaction ids.
    public func chains(of customer: Customer) -> [ChainRecord] {
        chains.values.filter { $0.isOwned(by: customer) }.sorted {
            $0.key.originalTransactionId < $1.key.originalTransactionId
        }
    }
}

/// A stored document, and the chains that it is evidence for.
public struct DocumentReference: Hashable, Sendable {
    public var name: Provenance
    public var chains: Set<ChainKey>

    public init(_ name: Provenance, about chains: Set<ChainKey>) {
        self.name = name
        self.chains = chains
    }
}

// MARK: - What is committed

/// What a decision changes: whole values, so that the order in which they are written does not matter, but for that of lists.
public struct LedgerChanges: Sendable {
    /// Documents to store. The tokens in a notification come before it.
    public var documents: [NewDocument] = []
    /// The records that take the place of those that were loaded.
    public var chains: [ChainRecord] = []
    /// The records that take the place of those that were loaded, or are new.
    public var customers: [CustomerRecord] = []
    /// Customers to erase with their ids.
    public var erasedCustomers: Set<Customer> = []
    /// Chains whose documents are evidence for another one from now on.
    public var movedEvidence: [ChainKey: ChainKey] = [:]
    /// Chains that no document is evidence for from now on. Documents that are evidence for none are erased.
    public var erasedChains: Set<ChainKey> = []
    /// Events, in order.
    public var events: [LedgerEvent] = []
    /// API keys that take the place of those with the same public part.
    public var apiKeys: [APIKey] = []
    /// By bundle id: the digest of the catalogue with which all chains of the app were evaluated.
    public var catalogues: [String: [UInt8]] = [:]

    public init() {}

    /// Whether there is nothing to write.
    public var isEmpty: Bool {
        documents.isEmpty && chains.isEmpty && customers.isEmpty && erasedCustomers.isEmpty
            && movedEvidence.isEmpty && erasedChains.isEmpty && events.isEmpty && apiKeys.isEmpty && catalogues.isEmpty
    }
}

/// A document to store.
public struct NewDocument: Sendable {
    public var evidence: Evidence
    /// The chains that it is evidence for. If it is stored already, it becomes evidence for these too.
    public var chains: Set<ChainKey>
    public var receivedAt: Timestamp

    public init(_ evidence: Evidence, for chains: Set<ChainKey>, receivedAt: Timestamp) {
        self.evidence = evidence
        self.chains = chains
        self.receivedAt = receivedAt
    }
}

// MARK: - Pages

/// A place in the events of one app. Only the storage that returned it knows what it says.
public struct EventCursor: Hashable, Sendable, RawRepresentable {
    public var rawValue: String

    public init(rawValue: String) {
        self.rawValue = rawValue
    }
}

/// Why there are no events behind a cursor.
public enum EventCursorError: Error, Hashable {
    /// It is no cursor of this ledger.
    case invalid
    /// Events behind it were erased. Those that are left begin behind `oldest`.
    case expired(oldest: EventCursor)
}

/// Some events of one app.
public struct EventPage: Sendable {
    public var events: [LedgerEvent]
    /// The first id of each customer that the events name, unless it was erased.
    public var customerIds: [Customer: String]
    /// Behind the last of them. If there are none, the cursor of the request, or one that stands for the same place.
    public var next: EventCursor

    public init(events: [LedgerEvent], customerIds: [Customer: String], next: EventCursor) {
        self.events = events
        self.customerIds = customerIds
        self.next = next
    }
}

/// A place in a scan. Only the storage that returned it knows what it says.
public struct ScanCursor: Hashable, Sendable, RawRepresentable {
    public var rawValue: String

    public init(rawValue: String) {
        self.rawValue = rawValue
    }
}

/// Some of what a scan finds.
public struct ScanPage<Item: Sendable>: Sendable {
    public var items: [Item]
    /// What could not be read at this place, as sentences. The scan goes on behind it.
    public var damage: [String]
    /// Where the scan goes on; `nil` at its end.
    public var next: ScanCursor?

    public init(items: [Item], damage: [String] = [], next: ScanCursor?) {
        self.items = items
        self.damage = damage
        self.next = next
    }
}

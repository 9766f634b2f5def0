// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Where a ledger is kept. Written for those who implement it: what is decided, the ledger decides; a storage keeps and
/// finds.
///
/// `LedgerStorageContract` tries all that is promised here.
public protocol LedgerStorage: Sendable {
    /// Runs `work` as one transaction: no other write happens meanwhile, and what it wrote is durable once this returns.
    /// Throws what `work` throws, or ``LedgerStorageError``; then nothing of it was written.
    ///
    /// Many writes at once may share one flush to the disk. Work does nothing but read and write, so that it may be run again
    /// after what it wrote was taken back, and lets what these throw through: a storage need not go on after it failed. Once
    /// begun, it is not cancelled.
    func write<Result: Sendable>(
        _ work: @escaping @Sendable (any LedgerWriter) throws -> Result
    ) async throws -> Result

    /// Does ahead what adding a document takes and needs no transaction, for which others wait: compressing it, for one.
    ///
    /// - Returns: What is given to ``LedgerWriter/add(_:prepared:receivedAt:)`` then; `nil` where there is nothing.
    func prepare(_ evidence: Evidence) -> (any Sendable)?

    /// Runs `work` on one state of the ledger that no write changes meanwhile. It holds all that was written before.
    ///
    /// Throws what `work` throws, ``LedgerStorageError``, or `CancellationError` where nobody waits for it any more.
    func read<Result: Sendable>(
        _ work: @escaping @Sendable (any LedgerReader) throws -> Result
    ) async throws -> Result

    /// What an operator should look at although the storage works, as a sentence; `nil` if there is nothing.
    var concern: String? { get }
}

extension LedgerStorage {
    public var concern: String? { nil }

    public func prepare(_ evidence: Evidence) -> (any Sendable)? { nil }
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

/// What can be found in a ledger. A `limit` of 0 or less finds nothing.
public protocol LedgerReader {
    /// The document of this name that was signed then, as it arrived, byte for byte.
    func document(_ source: Provenance) throws -> StoredDocument?

    /// The documents that arrived after the one with this number, in the order of their arrival, at most `limit`.
    func documents(after number: Int64, limit: Int) throws -> [StoredDocument]

    /// The numbers of those documents. Reads no document, so that it also finds those that are damaged.
    func documentNumbers(after number: Int64, limit: Int) throws -> [Int64]

    /// When the newest notification arrived; `nil` if none of the last `count` documents is one.
    func lastNotification(among count: Int) throws -> Timestamp?

    /// The chains of which something is known and that came after the one with this number, in the order in which they became
    /// known, at most `limit`. Numbers are greater than 0.
    func chainKeys(after number: Int64, limit: Int) throws -> [(number: Int64, key: ChainKey)]

    /// All that is known of a chain; `nil` where nothing is.
    func chain(_ key: ChainKey) throws -> Chain?

    /// The chain that a transaction belongs to; `nil` where it is not known. Where documents name different ones, as when a
    /// subscription was migrated, the one that the newest of them names.
    func chainKey(of transaction: TransactionKey) throws -> ChainKey?

    /// When a chain was forgotten; `nil` where it was not, or is remembered again.
    func forgottenAt(_ key: ChainKey) throws -> Timestamp?

    /// What was last told about a chain; see ``LedgerWriter/put(_:for:)``.
    func report(_ key: ChainKey) throws -> ChainReport?

    /// The chains that are due: those whose report names an instant not after `now`. The earliest first, those of one instant
    /// in any order, at most `limit`.
    func chainsDue(at now: Timestamp, limit: Int) throws -> [ChainKey]

    /// The customer that has `id` among its ids.
    func customer(_ id: String, of bundleId: String) throws -> Customer?

    /// A customer's ids, in the order in which they were added.
    func ids(of customer: Customer) throws -> [String]

    /// Whether a customer exists in its own right: a claim or an alias has used one of its ids. Otherwise it exists only
    /// because a signed document names its account.
    func isEstablished(_ customer: Customer) throws -> Bool

    /// Whose a chain is, in the order in which they were linked.
    func owners(of key: ChainKey) throws -> [(customer: Customer, reason: LinkReason)]

    /// What a customer has in one environment, in the order in which it was linked.
    func chains(of customer: Customer, in environment: Environment) throws -> [ChainKey]

    /// When claims changed the owner of a chain, as it was put last; empty if nothing was put.
    func ownerChanges(of key: ChainKey) throws -> [Timestamp]

    /// The API key with this public part, also one that was revoked.
    func apiKey(_ id: String) throws -> APIKey?

    /// All API keys, the one that was put last behind the others.
    func apiKeys() throws -> [APIKey]

    /// The events after the one with this number, in order, at most `limit`.
    func events(after sequence: Int64, limit: Int) throws -> [LedgerEvent]
}

/// What can be written into a ledger, in one transaction. It sees what it wrote.
public protocol LedgerWriter: LedgerReader {
    /// Adds a document. Returns false, and changes nothing, where one of this name is there already. A document that came inside
    /// of another is not there by that.
    func add(_ evidence: Evidence, receivedAt: Timestamp) throws -> Bool

    /// As ``add(_:receivedAt:)``, with what ``LedgerStorage/prepare(_:)`` made of the document.
    func add(_ evidence: Evidence, prepared: (any Sendable)?, receivedAt: Timestamp) throws -> Bool

    /// Keeps what a document says about a transaction, in place of an older word from the same kind of document.
    ///
    /// - Parameter key: The chain that it names. So it is for all that is put.
    func put(_ statement: TransactionStatement, in key: ChainKey) throws

    /// Keeps what a document says about what comes next, in place of an older word.
    func put(_ renewal: RenewalFact, in key: ChainKey) throws

    /// Remembers what was told about a chain, and when to look at it again.
    func put(_ report: ChainReport, for key: ChainKey) throws

    /// Adds an event. Its number is greater than those of all events before it, in every transaction.
    func append(_ event: LedgerEvent) throws

    /// A new customer with this id, which must be nobody's yet. Its number was never another's. It is not established.
    func addCustomer(_ id: String, of bundleId: String) throws -> Customer

    /// Makes `id` one of the customer's. It must be nobody's yet.
    func add(id: String, to customer: Customer) throws

    /// Notes that a customer exists in its own right, for as long as it exists.
    func establish(_ customer: Customer) throws

    /// Gives all ids and chains of `other` to `customer`, after its own, and forgets `other`. Both are of one app. The customer is
    /// established if either was, and of two links to one chain a claim is the one that stays.
    func merge(_ other: Customer, into customer: Customer) throws

    /// Forgets a customer with its ids and links. What was signed stays.
    func delete(_ customer: Customer) throws

    /// Makes a chain a customer's. Linking twice is linking once; the first reason stays.
    func link(_ key: ChainKey, to customer: Customer, _ reason: LinkReason) throws

    /// Takes a chain from a customer. Without effect where it was not that customer's.
    func unlink(_ key: ChainKey, from customer: Customer) throws

    /// Keeps when claims changed the owner of a chain, in place of what was put before.
    func put(ownerChanges times: [Timestamp], of key: ChainKey) throws

    /// Keeps an API key, in place of the one with the same public part.
    func put(_ key: APIKey) throws

    /// Forgets the facts of a chain, which can be derived from the documents again. All else stays.
    func removeFacts(of key: ChainKey) throws

    /// Forgets chains: their facts, their reports, their owners and when these changed, and the documents that speak of no chain that is not
    /// forgotten. That they were forgotten is all that is known of them then.
    ///
    /// - Returns: How many documents were forgotten, and how many stay since they speak of other chains too.
    func forget(_ keys: [ChainKey], at now: Timestamp) throws -> (forgotten: Int, kept: Int)

    /// From now on a chain counts as any other. Without effect where it was not forgotten.
    func remember(_ key: ChainKey) throws

    /// Writes something that nobody reads, so that it comes to light whether writing is possible.
    func proveWritable() throws
}

extension LedgerWriter {
    public func add(_ evidence: Evidence, prepared: (any Sendable)?, receivedAt: Timestamp) throws -> Bool {
        try add(evidence, receivedAt: receivedAt)
    }
}

/// A document as it is kept.
public struct StoredDocument: Hashable, Sendable {
    /// Its place in the order of arrival.
    public var number: Int64
    public var id: EvidenceID
    public var kind: Evidence.Kind
    public var scope: LedgerScope
    public var signedDate: Timestamp?
    public var receivedAt: Timestamp
    public var notification: Evidence.Notification?
    public var document: [UInt8]

    public init(
        number: Int64, id: EvidenceID, kind: Evidence.Kind, scope: LedgerScope, signedDate: Timestamp?,
        receivedAt: Timestamp, notification: Evidence.Notification?, document: [UInt8]
    ) {
        self.number = number
        self.id = id
        self.kind = kind
        self.scope = scope
        self.signedDate = signedDate
        self.receivedAt = receivedAt
        self.notification = notification
        self.document = document
    }
}

/// What was last told about a chain, so that each change is told once, also after downtime.
public struct ChainReport: Hashable, Sendable {
    public var status: SubscriptionState.Status?
    public var productId: String?
    public var transactionId: String?
    public var expiresDate: Timestamp?
    public var willRenew: Bool?
    /// The transactions of it that were taken back.
    public var revoked: Set<String>
    /// Whether any of it could be used.
    public var isEntitling: Bool
    /// When to look again; `nil` for never.
    public var nextChange: Timestamp?

    public init(
        status: SubscriptionState.Status? = nil, productId: String? = nil, transactionId: String? = nil,
        expiresDate: Timestamp? = nil, willRenew: Bool? = nil, revoked: Set<String> = [], isEntitling: Bool = false,
        nextChange: Timestamp? = nil
    ) {
        self.status = status
        self.productId = productId
        self.transactionId = transactionId
        self.expiresDate = expiresDate
        self.willRenew = willRenew
        self.revoked = revoked
        self.isEntitling = isEntitling
        self.nextChange = nextChange
    }
}

// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Keeps what the App Store signed and answers who owns what. It is the only way to a storage.
///
/// Whatever order documents arrive in, however often and however late, the answers are the same: they are computed from
/// facts, of which the newest hold, and never from what happened to arrive last.
public struct Ledger: Sendable {
    package let storage: any LedgerStorage
    public var rules: LedgerRules

    /// Called after each commit: with `nil` if it succeeded, else with why the storage refused it.
    package var onCommit: @Sendable (LedgerStorageError?) -> Void = { _ in }

    public init(storage: any LedgerStorage, rules: LedgerRules = LedgerRules()) {
        self.storage = storage
        self.rules = rules
    }
}

/// What the operator decides about a ledger.
public struct LedgerRules: Hashable, Sendable {
    /// By bundle id. An app without one has an empty catalogue.
    public var catalogues: [String: Catalogue]

    /// What happens if a customer presents a purchase that another customer has.
    public var claimPolicy: ClaimPolicy

    /// Whether what the App Store signed stays when a customer is deleted, for example because the law requires books to be kept.
    public var keepsEvidence: Bool

    public init(
        catalogues: [String: Catalogue] = [:], claimPolicy: ClaimPolicy = .accountTokenWins, keepsEvidence: Bool = false
    ) {
        self.catalogues = catalogues
        self.claimPolicy = claimPolicy
        self.keepsEvidence = keepsEvidence
    }

    /// What an app's products stand for.
    func catalogue(_ scope: LedgerScope) -> Catalogue { catalogues[scope.bundleId] ?? Catalogue() }
}

extension Ledger {
    /// Loads, decides by the rules and commits.
    func commit<Output: Sendable>(
        _ query: LedgerQuery,
        _ decide: @escaping @Sendable (LedgerSnapshot, LedgerRules) throws -> LedgerDecision<Output>
    ) async throws -> Output {
        let rules = rules
        do {
            let output = try await storage.commit(query) { try decide($0, rules) }
            onCommit(nil)
            return output
        } catch let error as LedgerStorageError {
            onCommit(error)
            throw error
        }
    }
}

// MARK: - Recording

extension Ledger {
    /// Records documents at once: they themselves, the facts in them, whose they are and what changed.
    ///
    /// - Parameters:
    ///   - evidence: All of it is durable once this returns, or none of it if this throws.
    ///   - claimant: The app's own id of the customer who presents them, if one does. An unknown id makes a new customer.
    ///   - limitsClaims: Whether claims may change the owner of a chain only a few times a day; see
    ///     ``RecordResult/tooManyClaims``.
    ///   - now: When they arrived.
    /// - Throws: ``LedgerStorageError``.
    public func record(
        _ evidence: [Evidence], claimedBy claimant: String? = nil, limitsClaims: Bool = false, at now: Timestamp
    ) async throws -> RecordResult {
        let claimant = evidence.first.flatMap { first in claimant.map { CustomerID($0, of: first.scope.bundleId) } }
        let recording = Recording(documents: evidence, claimant: claimant, limitsClaims: limitsClaims)
        return try await commit(recording.query) { recording.decide($0, $1, at: now) }
    }

    /// Publishes what time changed: of every chain whose answer changed by itself since it was last published.
    ///
    /// - Returns: How many chains were looked at: `limit` if there may be more.
    /// - Throws: ``LedgerStorageError``: `damaged` if some of the chains cannot be read. The others were published.
    public func publishDueChanges(at now: Timestamp, limit: Int = 500) async throws -> Int {
        var damaged: Set<ChainKey> = []
        let count = try await publishDueChanges(at: now, limit: limit, besides: &damaged)
        guard damaged.isEmpty else { throw LedgerStorageError.damaged(damaged) }
        return count
    }

    /// As ``publishDueChanges(at:limit:)``, and passes over chains that are damaged.
    ///
    /// - Parameter damaged: Chains that are known to be damaged. Those that are found to be are added.
    package func publishDueChanges(
        at now: Timestamp, limit: Int, besides damaged: inout Set<ChainKey>
    ) async throws -> Int {
        // A damaged chain stays due.
        let due = Set(try await storage.dueChains(at: now, limit: limit + damaged.count)).subtracting(damaged)
        // Nearly always there is nothing, and then nothing is written.
        damaged.formUnion(try await publish(due.sorted(), at: now) { $0.publishDue($1) })
        return due.count
    }
}

// MARK: - Customers

extension Ledger {
    /// One customer, and what it has in one environment.
    public struct CustomerAnswer: Hashable, Sendable {
        /// The customer's ids, in the order in which they were added.
        public var ids: [String]
        public var holdings: Holdings
        /// All transactions, chain by chain, the earliest purchase first.
        public var purchases: [TransactionStatement]
        /// The ids of consumables that may have been credited before: to another customer from whom a claim moved them, or to
        /// one who was erased.
        public var transferred: Set<String>
    }

    /// What a customer has at `now`; `nil` if the customer is not known.
    public func customer(
        _ id: String, in scope: LedgerScope, at now: Timestamp
    ) async throws -> CustomerAnswer? {
        let (id, snapshot) = try await holder(id, in: scope)
        guard let customer = snapshot.customer(id) else { return nil }
        let records = snapshot.chains(of: customer.customer)
        let histories = records.map { ($0.chain, $0.chain.history(at: now)) }
        return CustomerAnswer(
            ids: customer.ids, holdings: Holdings(histories, rules.catalogue(scope), at: now),
            purchases: histories.flatMap(\.1.purchases),
            transferred: zip(records, histories).reduce(into: []) { transferred, chain in
                transferred.formUnion(chain.0.transferred(of: chain.1.1.purchases))
            })
    }

    /// The entitlements of a customer at `now`, and what else follows from its purchases; `nil` if the customer is not known.
    public func holdings(
        of id: String, in scope: LedgerScope, at now: Timestamp
    ) async throws -> Holdings? {
        let (id, snapshot) = try await holder(id, in: scope)
        guard let customer = snapshot.customer(id) else { return nil }
        let chains = snapshot.chains(of: customer.customer).lazy.map(\.chain)
        return Holdings(chains, catalogue: rules.catalogue(scope), at: now)
    }

    private func holder(_ id: String, in scope: LedgerScope) async throws -> (CustomerID, LedgerSnapshot) {
        let id = CustomerID(id, of: scope.bundleId)
        var query = LedgerQuery()
        query.customers = [id]
        query.holdings = [scope.environment]
        return (id, try await storage.load(query))
    }

    /// Makes `alias` another id of the customer. If it is a customer of its own, the two become one. The customer exists in its
    /// own right from now on.
    ///
    /// - Returns: False if the customer is not known.
    public func addAlias(
        _ alias: String, to id: String, in scope: LedgerScope, at now: Timestamp
    ) async throws -> Bool {
        let aliasing = Aliasing(
            id: CustomerID(id, of: scope.bundleId), alias: CustomerID(alias, of: scope.bundleId), scope: scope)
        return try await commit(aliasing.query) { aliasing.decide($0, $1, at: now) }
    }

    /// Erases a customer: its ids and links and, unless ``LedgerRules/keepsEvidence`` is set, what the App Store signed about its
    /// purchases. Purchases that are another customer's too stay that customer's. Events stay, and name no customer any more.
    ///
    /// - Returns: `nil` if the customer is not known.
    public func delete(_ id: String, in scope: LedgerScope, at now: Timestamp) async throws -> DeletionReport? {
        let erasure = CustomerErasure(id: CustomerID(id, of: scope.bundleId), scope: scope)
        return try await commit(erasure.query) { erasure.decide($0, $1, at: now) }
    }
}

extension ChainRecord {
    /// The ids of those consumables among purchases that may have been credited to another customer.
    fileprivate func transferred(of purchases: [TransactionStatement]) -> Set<String> {
        let consumables = Set(purchases.lazy.filter { $0.type == .consumable }.map(\.transactionId))
        return ownerChanges.isEmpty ? consumables.intersection(chain.residue.keys) : consumables
    }
}

// MARK: - Chains, transactions and documents

extension Ledger {
    /// All that is known of some chains, by their own keys. Instead of one that was migrated there is the one that it became. One of
    /// which nothing is known is not among them.
    public func chains(_ keys: some Sequence<ChainKey>) async throws -> [ChainKey: Chain] {
        var (query, found) = (LedgerQuery(), [ChainKey: Chain]())
        query.chains = Set(keys)
        while !query.chains.isEmpty {
            let records = try await storage.load(query).chains.values
            for record in records where record.hasFacts { found[record.key] = record.chain }
            // Once, as a successor has none of its own.
            let successors = records.compactMap { record in record.successor.map { ChainKey($0, in: record.key.scope) }
            }
            query.chains = Set(successors).subtracting(query.chains)
        }
        return found
    }

    /// All that is known of a chain, or of the one that it became; `nil` if nothing is.
    public func chain(_ key: ChainKey) async throws -> Chain? { try await chains([key]).values.first }

    /// What is known of a transaction, and in which chain it is; `nil` if it is not known.
    public func transaction(_ key: TransactionKey) async throws -> TransactionStatement? {
        var query = LedgerQuery()
        query.transactions = [key]
        let snapshot = try await storage.load(query)
        guard let record = snapshot.transactions[key].flatMap({ snapshot.chains[$0] }) else { return nil }
        return record.chain.transactions[key.transactionId].flatMap(record.chain.current)
    }

    /// Some documents, by name. One that is not stored is not among them.
    public func documents(_ names: some Sequence<Provenance>) async throws -> [Provenance: StoredDocument] {
        var query = LedgerQuery()
        query.documents = Set(names)
        return try await storage.load(query).documents
    }
}

// MARK: - Events

extension Ledger {
    /// The events of one app behind a cursor, oldest first, at most `limit`.
    ///
    /// - Parameter cursor: The `next` of the last page; `nil` for the beginning.
    /// - Throws: ``EventCursorError``, ``LedgerStorageError``.
    public func events(of bundleId: String, after cursor: EventCursor? = nil, limit: Int) async throws -> EventPage {
        try await storage.events(of: bundleId, after: cursor, limit: limit)
    }

    /// Erases events that were recorded before an instant, at most `limit`. Cursors before them expire.
    ///
    /// - Returns: How many were erased: `limit` if there may be more.
    public func eraseEvents(before instant: Timestamp, limit: Int = 5000) async throws -> Int {
        try await storage.eraseEvents(before: instant, limit: limit)
    }
}

// MARK: - API keys and health

extension Ledger {
    /// The API key with this public part, also if it was revoked; `nil` if there is none.
    public func apiKey(_ id: String) async throws -> APIKey? { try await apiKeys().first { $0.id == id } }

    /// All API keys, the one that was stored last at the end.
    public func apiKeys() async throws -> [APIKey] { try await storage.apiKeys() }

    /// Stores an API key in place of the one with the same public part.
    public func put(_ key: APIKey) async throws {
        try await commit(LedgerQuery()) { _, _ in
            var changes = LedgerChanges()
            changes.apiKeys = [key]
            return .commit(changes, ())
        }
    }

    /// Finds out whether anything can be written.
    ///
    /// - Throws: ``LedgerStorageError`` if not.
    public func proveWritable() async throws { try await storage.proveWritable() }

    /// What an operator should look at although the ledger works, as a sentence; `nil` if there is nothing.
    public var concern: String? { storage.concern }

    /// When the newest notification arrived; `nil` if none of the last `count` documents is one.
    public func lastNotification(among count: Int) async throws -> Timestamp? {
        try await storage.lastNotification(among: count)
    }
}

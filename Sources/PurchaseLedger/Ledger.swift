// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A ledger of documents that the App Store signed. It records documents, and answers which purchases customers own.
/// All access to a storage goes through a ledger.
///
/// Answers are computed from the newest facts. Therefore duplicates, delays and the order of arrival change no answer.
public struct Ledger: Sendable {
    package let storage: any LedgerStorage
    /// The catalogues and policies by which the ledger decides.
    public var rules: LedgerRules
    /// A cache of the root certificates already noted in the storage as roots of its documents. All copies of this
    /// value share the cache.
    let knownRoots = KnownRoots()

    /// The journal to which each erasure is also written, one erasure at a time; `nil` if there is no journal.
    private var erasures: ErasureTurns?

    /// Called after each attempt to commit: with `nil` after a success, or with a ``LedgerStorageError``. The error
    /// `otherRoots` is not reported, because it means that the ledger refuses documents, not that the storage fails.
    package var onCommit: @Sendable (LedgerStorageError?) -> Void = { _ in }

    /// Called with verified documents, before they are recorded.
    package var onDocuments: @Sendable ([Evidence]) -> Void = { _ in }

    /// Called after a commit that stored notices for the operator (``Notice``). The value of each notice is the number
    /// of documents that caused it.
    package var onNotices: @Sendable ([Notice: Int]) -> Void = { _ in }

    /// Called after a commit that stores a record which is already due, such as a job to be done at once.
    package var onDue: @Sendable () -> Void = {}

    /// Returns the time by which events are delivered, and by which the ids in them go
    /// (``DeletedCustomer/lifetime``). `nil` stands for the time of each change, which can be a simulator's.
    package var wall: (@Sendable () -> Timestamp)?

    /// The entry on the audit list of the operation that uses this value. It is stored in the commit of a change. `nil`
    /// for submissions, jobs and notifications.
    package var audit: AuditEntry?

    /// Called after a commit that stored events, once for each app that has a new event.
    package var onEvents: @Sendable (_ bundleId: String) -> Void = { _ in }

    public init(storage: any LedgerStorage, rules: LedgerRules = LedgerRules()) {
        self.storage = storage
        self.rules = rules
    }

    /// Makes the ledger write each erasure into a journal before it commits the erasure. No other ledger may use the
    /// journal.
    ///
    /// - Parameter renewed: Begins a new journal. Called if another server has erased with a copy of the journal.
    package mutating func keepErasures(
        in journal: any ErasureJournal,
        renewed: @escaping @Sendable () throws -> any ErasureJournal = {
            throw LedgerStorageError(.unavailable, "The journal of erasures lacks deletions that the ledger knows")
        }
    ) { erasures = ErasureTurns(journal, renewed: renewed) }

    /// Makes the ledger write further erasures into a different journal.
    package func keepErasures(inNew journal: any ErasureJournal) { erasures?.journal = journal }
}

extension Ledger {
    /// Loads the records of a query, lets `decide` change them in a ``LedgerDraft``, and commits the changes.
    ///
    /// - Parameter decide: Must have no side effects. The closure runs again if it needs more records, or if another
    ///   commit changed the loaded records.
    func commit<Output: Sendable>(
        _ query: LedgerQuery, at now: Timestamp, _ decide: @escaping @Sendable (inout LedgerDraft) -> Output
    ) async throws -> Output {
        let rules = rules
        let audit = audit
        let wall = wall?() ?? now
        let query = audit.map { query.union(LedgerQuery([.record($0.key)])) } ?? query
        do {
            let (output, leavesDue, apps) = try await storage.commit(query) { snapshot in
                var draft = LedgerDraft(snapshot, rules, at: now, wall: wall)
                let output = decide(&draft)
                if let audit { draft.add(audit) }
                return try draft.decision((output, draft.leavesDue, Set(draft.changes.events.map(\.scope.bundleId))))
            }
            onCommit(nil)
            if leavesDue { onDue() }
            for app in apps { onEvents(app) }
            return output
        } catch let error as LedgerStorageError {
            // A refusal is no failure of the storage.
            if error.code != .otherRoots { onCommit(error) }
            throw error
        }
    }
}

// MARK: - Recording

extension Ledger {
    /// Records documents in one commit, with their facts, owners and events. The documents are one statement: in any
    /// order, the events tell the state after all of them.
    ///
    /// - Parameters:
    ///   - evidence: The documents. When this method returns, every document that the ledger keeps is durable. If it
    ///     throws, no document is stored, unless the error's code is ``LedgerStorageError/Code/unavailable``: the
    ///     outcome is then unknown.
    ///   - claimant: The app's id of the customer that presents the documents; `nil` if they come from the App Store.
    ///     An unknown id creates a customer.
    ///   - limitsClaims: Whether customers, by presenting a purchase, may change its owner only a few times a day; see
    ///     ``RecordResult/tooManyClaims``.
    ///   - corrects: Whether the claim is a correction, as by ``move(_:to:_:at:)``: the claimant becomes the only owner
    ///     of the presented purchases, whatever the claim policy.
    ///   - isBackfill: Whether the documents are a past history, read at the App Store. Their events about payments
    ///     then say so (``EventDetails/backfilled``).
    ///   - now: The time at which the documents arrived.
    /// - Returns: The result. Documents without purchases are not recorded, and count neither as new nor as known. A
    ///   document of the app's own purchase is recorded if a customer presents it.
    /// - Throws: ``LedgerStorageError``: `otherRoots` if the ledger would then have documents whose roots must not be
    ///   mixed, such as Apple's roots and a simulator's.
    public func record(
        _ evidence: [Evidence], claimedBy claimant: String? = nil, limitsClaims: Bool = false, corrects: Bool = false,
        isBackfill: Bool = false, at now: Timestamp
    ) async throws -> RecordResult {
        onDocuments(evidence)
        let claimant = evidence.first.flatMap { first in claimant.map { CustomerID($0, of: first.scope.bundleId) } }
        // Any user of the app can get any number of documents without purchases from the App Store, and could fill the
        // ledger with them. They belong to no purchase, so no answer would ever need them. Of the documents about a
        // customer's purchase of the app, those with the same content displace each other.
        let evidence = evidence.filter { !$0.isWithoutPurchases || claimant != nil && $0.provesAppPurchase }
        guard !evidence.isEmpty || claimant != nil else { return RecordResult() }
        let recording = Recording(
            documents: evidence, claimant: claimant, limitsClaims: limitsClaims, corrects: corrects,
            isBackfill: isBackfill, unnoted: knownRoots.unnoted(in: evidence))
        let result = try await commit(recording.query(rules, at: now), at: now) { $0.record(recording) }
        if let noted = recording.unnoted?.anchors { knownRoots.insert(noted) }
        if !result.notices.isEmpty { onNotices(result.notices) }
        return result
    }

    /// Publishes the changes of chains (see ``Chain``) that have become due by the passage of time alone. If a clock
    /// that was ahead published changes too early, also publishes the present state of the chains concerned; see
    /// ``ChainReport/asOf``.
    ///
    /// - Returns: The greater of two numbers: of the chains found for correction, and of the chains found with due
    ///   changes. At least `limit` if there may be more chains.
    /// - Throws: ``LedgerStorageError``: `damaged` if some chains cannot be read. The changes of all other chains were
    ///   published.
    public func publishDueChanges(at now: Timestamp, limit: Int = 500) async throws -> Int {
        var damaged: Set<ChainKey> = []
        let corrected = try await publishCorrections(at: now, limit: limit, besides: &damaged)
        let count = try await publishDueChanges(at: now, limit: limit, besides: &damaged)
        guard damaged.isEmpty else { throw LedgerStorageError.damaged(damaged) }
        return max(corrected, count)
    }

    /// Publishes the present state of chains whose changes were published too early, by a clock that was ahead.
    ///
    /// - Parameter damaged: The known damaged chains. Newly found damaged chains are added.
    /// - Returns: The number of chains found: at least `limit` if there may be more.
    package func publishCorrections(
        at now: Timestamp, limit: Int, besides damaged: inout Set<ChainKey>
    ) async throws -> Int {
        let instant = now.advanced(by: ChainReport.clockTolerance)
        let ahead = Set(try await storage.chains(.ahead(of: instant), limit: limit + damaged.count))
            .subtracting(damaged)
        damaged.formUnion(try await publish(ahead.sorted(), at: now) { $0.publishDue($1) })
        return ahead.count
    }

    /// Publishes due changes as ``publishDueChanges(at:limit:)`` does, but skips damaged chains, and does not search
    /// for chains to correct.
    ///
    /// - Parameter damaged: The known damaged chains. Newly found damaged chains are added.
    package func publishDueChanges(
        at now: Timestamp, limit: Int, besides damaged: inout Set<ChainKey>
    ) async throws -> Int {
        // A damaged chain stays due, so the search has to reach beyond the damaged chains.
        let due = Set(try await storage.chains(.due(at: now), limit: limit + damaged.count)).subtracting(damaged)
        // Usually no chain is due, and this call makes no commit.
        damaged.formUnion(try await publish(due.sorted(), at: now) { $0.publishDue($1) })
        return due.count
    }
}

// MARK: - Customers

extension Ledger {
    /// A customer, and the customer's holdings in an environment.
    public struct CustomerAnswer: Hashable, Sendable {
        /// The customer's ids, in the order of their addition.
        public var ids: [String]
        /// The customer's holdings.
        public var holdings: Holdings
        /// All transactions, chain by chain. In each chain, the earliest purchase is first.
        public var purchases: [TransactionStatement]
        /// The access that each purchase gives by itself, by transaction id.
        public var access: [String: Access]
        /// The purchase of the app itself. If there are several, the earliest, and of the same purchase in several
        /// documents that with an id. `nil` if none is known.
        public var app: TransactionStatement?
        /// The transaction ids of consumables that may have been credited to a different customer before. Either a
        /// claim moved them from that customer, or that customer was erased.
        public var transferred: Set<String>
        /// For each purchase that several customers presented, the number of these customers, by the name of its chain;
        /// see ``RecordResult/claimants``.
        public var claimants: [String: Int]
        /// The time at which the customer consented to the sending of consumption information to Apple; `nil` without
        /// consent.
        public var consentedAt: Timestamp?
    }

    /// The answer about a customer at `now`; `nil` if the customer is unknown.
    public func customer(
        _ id: String, in scope: LedgerScope, at now: Timestamp
    ) async throws -> CustomerAnswer? {
        try await customer(id, of: scope.bundleId, in: [scope.environment], at: now)?[scope.environment]
    }

    /// The answers about a customer at `now` in several environments, from a single load; `nil` if the customer is
    /// unknown.
    public func customer(
        _ id: String, of bundleId: String, in environments: Set<Environment>, at now: Timestamp
    ) async throws -> [Environment: CustomerAnswer]? {
        guard let (customer, chains, _) = try await holder(id, of: bundleId, in: environments) else { return nil }
        return Dictionary(
            uniqueKeysWithValues: chains.map { environment, records in
                let catalogue = rules.catalogue(of: bundleId)
                return (environment, CustomerAnswer(customer, records, in: environment, catalogue, at: now))
            })
    }

    /// A customer's holdings at a time, without transactions.
    public struct CustomerHoldings: Hashable, Sendable {
        /// The customer's ids, in the order of their addition.
        public var ids: [String]
        /// The customer's holdings in each requested environment.
        public var environments: [Environment: Holdings]
    }

    /// A customer's holdings at `now`, without ids and transactions; `nil` if the customer is unknown.
    public func holdings(
        of id: String, in scope: LedgerScope, at now: Timestamp
    ) async throws -> Holdings? {
        try await holdings(of: id, of: scope.bundleId, in: [scope.environment], at: now)?
            .environments[scope.environment]
    }

    /// A customer's holdings at `now` in several environments, from a single load; `nil` if the customer is unknown.
    public func holdings(
        of id: String, of bundleId: String, in environments: Set<Environment>, at now: Timestamp
    ) async throws -> CustomerHoldings? {
        try await holdings(of: id, of: bundleId, in: environments, besides: nil, at: now)
    }

    /// The same from a load that costs by what the customer has, not by what it had: purchases that have nothing more
    /// to give (``Settlement``) are left out. Entitlements, unknown products and the time of the next change are the
    /// same, and so are subscriptions that give access or of which the App Store is asked. Consumables, and the
    /// subscriptions and refusals of the past, may be missing.
    package func openHoldings(
        of id: String, of bundleId: String, in environments: Set<Environment>, at now: Timestamp
    ) async throws -> CustomerHoldings? {
        let settled = settledChains(of: bundleId, at: now)
        return try await holdings(of: id, of: bundleId, in: environments, besides: settled, at: now)
    }

    /// The chains of an app that have nothing more to give at `now`.
    func settledChains(of bundleId: String, at now: Timestamp) -> SettledChains {
        SettledChains(
            at: now, catalogue: rules.catalogue(of: bundleId), keepsStale: rules.asksAppStore.contains(bundleId))
    }

    private func holdings(
        of id: String, of bundleId: String, in environments: Set<Environment>, besides settled: SettledChains?,
        at now: Timestamp
    ) async throws -> CustomerHoldings? {
        guard let (customer, chains, unknown) = try await holder(id, of: bundleId, in: environments, besides: settled)
        else { return nil }
        return CustomerHoldings(
            ids: customer.ids,
            environments: Dictionary(
                uniqueKeysWithValues: chains.map { environment, records in
                    var holdings = Holdings(
                        records.lazy.map(\.chain), grants: customer.grants(in: environment),
                        catalogue: rules.catalogue(of: bundleId), at: now)
                    holdings.unknownProducts.formUnion(unknown[environment] ?? [])
                    return (environment, holdings)
                }))
    }

    /// For each id all ids of the customer who has the id, and the id itself.
    package func ids(ofCustomers ids: Set<CustomerID>) async throws -> [CustomerID: Set<CustomerID>] {
        guard !ids.isEmpty else { return [:] }
        let snapshot = try await storage.load(LedgerQuery(ids.map { .customerID($0) }))
        return ids.reduce(into: [:]) { all, id in
            all[id] = Set((snapshot.customer(id)?.ids ?? []).map { CustomerID($0, of: id.bundleId) } + [id])
        }
    }

    /// The customers with some ids, and those merged into them: all whom events may name by one of their ids.
    package func customers(withIds ids: Set<CustomerID>) async throws -> Set<Customer> {
        let found = Set(try await storage.load(LedgerQuery(ids.map { .customerID($0) })).customers.keys)
        guard !found.isEmpty else { return [] }
        let records = try await storage.load(LedgerQuery(found.map { .record(MergedCustomers.key($0)) })).records.values
        return records.compactMap { MergedCustomers(readable: $0) }.reduce(found) { all, list in
            all.union(list.numbers.map { Customer(number: $0, bundleId: list.customer.bundleId) })
        }
    }

    /// A customer, and the customer's chains in each of several environments; `nil` if the customer is unknown. Also
    /// the unknown products of the chains left out.
    func holder(
        _ id: String, of bundleId: String, in environments: Set<Environment>, besides settled: SettledChains? = nil
    ) async throws -> (CustomerRecord, [Environment: [ChainRecord]], [Environment: Set<String>])? {
        let id = CustomerID(id, of: bundleId)
        let snapshot = try await storage.load(.holdings(of: [id], in: environments, besides: settled))
        guard let customer = snapshot.customer(id) else { return nil }
        let chains = Dictionary(grouping: snapshot.chains(of: customer.customer), by: \.key.scope.environment)
        let all = Dictionary(uniqueKeysWithValues: environments.map { ($0, chains[$0] ?? []) })
        return (customer, all, snapshot.unknownProducts)
    }

    /// Adds `alias` to the ids of a customer. If the alias is already the id of a second customer, the two customers
    /// are merged. In both cases the customer exists in its own right from then on; see
    /// ``CustomerRecord/isEstablished``.
    ///
    /// - Returns: False if the customer is unknown.
    public func addAlias(
        _ alias: String, to id: String, in scope: LedgerScope, at now: Timestamp
    ) async throws -> Bool {
        let id = CustomerID(id, of: scope.bundleId)
        let alias = CustomerID(alias, of: scope.bundleId)
        return try await commit(.everything(of: [id, alias]), at: now) { $0.addAlias(alias, to: id, in: scope) }
    }

    /// Erases a customer with its ids and its ownership of purchases. Unless ``LedgerRules/keepsEvidence`` is set, the
    /// documents about its purchases are erased too. Purchases with another owner stay. Events stay, but no longer name
    /// the customer.
    ///
    /// - Parameter isTimeConfirmed: Whether `now` is known to be correct. A document signed before the erasure that
    ///   arrives after it does not restore an erased purchase, unless a customer presents the document. If `now` is not
    ///   known to be correct, only documents up to the newest signing date in the ledger count as signed before the
    ///   erasure. If `now` were used although the clock is ahead, even a document signed after the erasure would not
    ///   restore the purchase.
    /// - Returns: `nil` if the customer is unknown.
    public func delete(
        _ id: String, in scope: LedgerScope, at now: Timestamp, isTimeConfirmed: Bool = true
    ) async throws -> DeletionReport? {
        let id = CustomerID(id, of: scope.bundleId)
        let instant = isTimeConfirmed ? now : try await provenTime(at: now)
        guard let erasures else {
            return try await commit(.everything(of: [id]), at: now) { $0.erase(id, in: scope, asOf: instant) }
        }
        return try await erasures.take { try await erase(id, in: scope, asOf: instant, erasures, at: now) }
    }

    /// The limits of the search for the newest signing date: how many of the last documents it covers, and how many of
    /// these it reads. More than one is read, because the last documents to arrive may have been signed long ago, for
    /// example if past purchases are being recorded.
    private static let newestDocuments = (searched: 1000, read: 20)

    /// The latest instant up to `now` that is proven to be past: the newest date at which the App Store signed a
    /// document in the ledger. `distantPast` without such a document.
    package func provenTime(at now: Timestamp) async throws -> Timestamp {
        var newest = Timestamp.distantPast
        for environment in Environment.allCases where environment.hasAppStore {
            let documents = try await storage.documents(
                .newest(in: environment, among: Self.newestDocuments.searched), limit: Self.newestDocuments.read)
            newest = documents.compactMap(\.signedDate).reduce(newest, max)
        }
        return min(newest, now)
    }
}

extension Ledger.CustomerAnswer {
    /// - Parameter records: The customer's chains in an environment.
    init(
        _ customer: CustomerRecord, _ records: [ChainRecord], in environment: Environment, _ catalogue: Catalogue,
        at now: Timestamp
    ) {
        let histories = records.map { ($0.chain, $0.chain.history(catalogue, at: now)) }
        let claimants = records.map { ($0.key.name, $0.claimants.count(at: now)) }
        ids = customer.ids
        holdings = Holdings(histories, customer.grants(in: environment), catalogue, at: now)
        purchases = histories.flatMap(\.1.purchases)
        access = histories.reduce(into: [:]) { [holdings] access, chain in
            access.merge(chain.1.access(holdings.subscriptions[chain.0.key.name])) { $0.isGiven ? $0 : $1 }
        }
        app = TransactionStatement(earliestOf: histories.compactMap(\.1.app))
        transferred = zip(records, histories).reduce(into: []) { transferred, chain in
            transferred.formUnion(chain.0.transferred(of: chain.1.1.purchases, among: records))
        }
        self.claimants = Dictionary(claimants.filter { $0.1 > 1 }) { $1 }
        consentedAt = customer.consentedAt
    }
}

extension ChainRecord {
    /// The transaction ids of consumables that may have been credited to a different customer.
    ///
    /// - Parameter records: The customer's chains. A consumable that the App Store moved from a chain of the customer
    ///   was not transferred.
    fileprivate func transferred(of purchases: [TransactionStatement], among records: [ChainRecord]) -> Set<String> {
        let consumables = Set(purchases.lazy.filter { $0.type == .consumable }.map(\.transactionId))
        guard ownerChanges.isEmpty else { return consumables }
        return consumables.intersection(chain.residue.keys).filter { id in
            !records.contains {
                $0.ownerChanges.isEmpty && $0.chain.transactions[id] != nil && $0.chain.residue[id] == nil
            }
        }
    }
}

// MARK: - Chains, transactions and documents

extension Ledger {
    /// The facts of some chains, by the chains' present keys. A migrated chain is replaced by its successor. Chains
    /// without facts are left out.
    public func chains(_ keys: some Sequence<ChainKey>) async throws -> [ChainKey: Chain] {
        var keys = Set(keys)
        var found: [ChainKey: Chain] = [:]
        while !keys.isEmpty {
            let records = try await storage.load(LedgerQuery(keys.map(LedgerKey.chain))).chains.values
            for record in records where record.hasFacts { found[record.key] = record.chain }
            // The loop runs at most twice, because a successor has no successor of its own.
            let successors = records.compactMap { record in
                record.successor.map { ChainKey($0, in: record.key.scope) }
            }
            keys = Set(successors).subtracting(keys)
        }
        return found
    }

    /// The facts of a chain, or of its successor after a migration; `nil` without facts.
    ///
    /// - Parameter key: In environments without an App Store, several chains can have the same original transaction id.
    ///   The id then stands for the newest of these chains.
    public func chain(_ key: ChainKey) async throws -> Chain? {
        if let chain = try await chains([key]).values.first { return chain }
        // If the newest chain with the id was erased, an older chain may be left.
        guard key.isPointer else { return nil }
        return try await newestChain(of: TransactionKey(key.name, in: key.scope))
    }

    /// The facts of the chain with a transaction; `nil` if the transaction is unknown. A purchase of the app itself is
    /// no transaction.
    public func chain(of key: TransactionKey) async throws -> Chain? {
        guard !ChainName.isAppPurchase(key.transactionId) else { return nil }
        guard !key.scope.environment.hasAppStore else { return try await newestChain(of: key) }
        let first = try await chain(ChainKey(key.transactionId, in: key.scope))
        if let first, first.counts(key.transactionId) { return first }
        return try await newestChain(of: key)
    }

    /// The facts of the chain in which a transaction counts (``Chain/counts(_:)``).
    private func newestChain(of key: TransactionKey) async throws -> Chain? {
        let snapshot = try await storage.load(LedgerQuery([.transaction(key)]))
        return snapshot.transactions[key].flatMap { snapshot.chains[$0]?.chain }
    }

    /// The present statement about a transaction; `nil` if the transaction is unknown.
    public func transaction(_ key: TransactionKey) async throws -> TransactionStatement? {
        let chain = try await chain(of: key)
        return chain?.transactions[key.transactionId].flatMap { chain?.current($0) }
    }

    /// The approximate number of statements (``TransactionStatement``) that a query loads; see
    /// ``LedgerStorage/statementCount(_:)``. The cost of an answer grows with this number.
    package func statementCount(_ query: LedgerQuery) async throws -> Int { try await storage.statementCount(query) }

    /// The approximate number of statements in some chains.
    package func statementCount(of chains: Set<ChainKey>) async throws -> Int {
        chains.isEmpty ? 0 : try await statementCount(LedgerQuery(chains.map(LedgerKey.chain)))
    }

    /// Documents by name. Missing documents are left out.
    public func documents(_ names: some Sequence<Provenance>) async throws -> [Provenance: StoredDocument] {
        try await storage.load(LedgerQuery(names.map(LedgerKey.content))).documents
    }
}

// MARK: - Events

extension Ledger {
    /// The events of an app after a cursor, oldest first, at most `limit`.
    ///
    /// - Parameters:
    ///   - selection: Restricts the search; see ``LedgerStorage/events(_:of:after:limit:)``.
    ///   - cursor: The `next` of the last page; `nil` for the beginning.
    ///   - now: The present time by the clock of deliveries, so that the page names the customers deleted in the last
    ///     30 days. With `nil`, it names no deleted customer.
    /// - Throws: ``EventCursorError``, ``LedgerStorageError``.
    public func events(
        _ selection: EventSelection? = nil, of bundleId: String, after cursor: EventCursor? = nil, limit: Int,
        at now: Timestamp? = nil
    ) async throws -> EventPage {
        try await storage.namedEvents(selection, of: bundleId, after: cursor, limit: limit, at: now)
    }

    /// Erases events recorded before an instant, at most `limit`. A cursor whose next event was erased expires.
    ///
    /// - Returns: The number of erased events: `limit` if there may be more.
    public func eraseEvents(before instant: Timestamp, limit: Int = 5000) async throws -> Int {
        try await storage.eraseEvents(before: instant, limit: limit)
    }
}

// MARK: - API keys and health

extension Ledger {
    /// The API key with this public part, even if the key was revoked; `nil` if the key is missing or unreadable.
    public func apiKey(_ id: String) async throws -> APIKey? {
        let key = APIKey.key(id)
        let record = try await storage.load(LedgerQuery([.record(key)])).records[key]
        // An unreadable key grants no access.
        return APIKey(readable: record)
    }

    /// All API keys, the oldest first. Unreadable keys are reported as damage.
    public func apiKeys() async throws -> (items: [APIKey], damage: [String]) {
        let selection = RecordSelection(APIKey.recordKind, of: .ledger)
        var records: [LedgerRecord] = []
        var damage: [String] = []
        var cursor: ScanCursor?
        repeat {
            let page = try await storage.records(selection, after: cursor, limit: Self.keyPage)
            records += page.items
            damage += page.damage
            cursor = page.next
        } while cursor != nil
        return Self.apiKeys(records, damage)
    }

    /// The number of API keys read at once. Most ledgers have fewer.
    private static let keyPage = 500

    /// Not inlined into its asynchronous caller, because this compiler's optimizer miscompiles the result.
    @inline(never)
    private static func apiKeys(_ records: [LedgerRecord], _ damage: [String]) -> (items: [APIKey], damage: [String]) {
        var keys: [APIKey] = []
        var damage = damage
        for record in records {
            do {
                keys.append(try APIKey(record))
            } catch {
                damage.append(error.message)
            }
        }
        return (keys.sorted { ($0.createdAt, $0.id) < ($1.createdAt, $1.id) }, damage)
    }

    /// Stores an API key, and replaces an earlier key with the same public part.
    public func put(_ key: APIKey) async throws {
        try await commit(LedgerQuery([.record(APIKey.key(key.id))]), at: key.createdAt) { $0.put(key) }
    }

    /// Proves that the storage is writable, by a write that changes no record.
    ///
    /// - Throws: ``LedgerStorageError`` if the storage is not writable.
    public func proveWritable() async throws { try await storage.proveWritable() }

    /// Prepares the storage for the time after an instant, see ``LedgerStorage/prepare(at:)``.
    public func prepare(at now: Timestamp) async { await storage.prepare(at: now) }

    /// The present condition of the storage, see ``LedgerStorage/condition``.
    public var condition: StorageCondition { storage.condition }

    /// The time by which a clock is ahead of the storage's own clock, see ``LedgerStorage/clockDifference(now:)``.
    public func clockDifference(now: @Sendable () -> Timestamp) async throws -> Duration? {
        try await storage.clockDifference(now: now)
    }

    /// The time of the last arrival of a notification; `nil` if the last `count` documents contain no notification.
    /// Which documents are the last depends on the storage: the last to arrive, or the last to be signed.
    public func lastNotification(among count: Int) async throws -> Timestamp? {
        // Nearly always the newest 1,000 documents have one.
        for depth in Set([min(count, 1000), count]).sorted() {
            let hours = try await storage.notificationHours(of: nil, among: depth, limit: 1)
            if let newest = hours.first?.newest { return newest }
        }
        return nil
    }

    /// See ``LedgerStorage/notificationHours(of:among:limit:)``.
    package func notificationHours(
        of bundleId: String, among count: Int, limit: Int
    ) async throws -> [NotificationHour] {
        try await storage.notificationHours(of: bundleId, among: count, limit: limit)
    }
}

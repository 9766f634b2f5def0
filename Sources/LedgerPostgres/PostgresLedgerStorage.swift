// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
public import PurchaseLedger
import Synchronization

/// A ledger in a PostgreSQL database, which any number of servers may use at once.
///
/// A decision takes two round trips: one loads what it looks at, in one state of the database, and one commits what it
/// changed. Nothing is locked in between. If another commit has changed anything that was loaded, the second round trip
/// commits nothing, and the decision is made again.
public final class PostgresLedgerStorage: LedgerStorage {
    private let pool: ConnectionPool
    private let clock: ContinuousClock
    private let queue = KeyQueue<CommitKey>()
    private let scopes = Mutex(ScopeNumbers())
    private let numbers = Mutex(NumberBlock())
    private let pieces = Mutex(KnownPieces())
    /// Whether documents are packed, see ``Schema``.
    private let packs: Bool
    private let random: Mutex<any RandomNumberGenerator & Sendable>
    /// The row that ``proveWritable()`` writes. Several, so that servers do not wait for each other.
    private let proof: Int64

    /// How often a decision is made again. Each time another commit has succeeded meanwhile.
    private static let mostConflicts = 100

    /// How often a request is sent again after its connection ended.
    private static let mostLosses = 3

    /// The longest pause before a decision is made again.
    private static let longestPause = 50

    /// Opens a ledger.
    ///
    /// - Parameters:
    ///   - upgrades: Whether to make the tables if there are none, and to bring older ones up to date.
    ///   - clock: Measures deadlines and pauses.
    ///   - random: Chooses versions of records, and pauses after conflicts.
    /// - Throws: `LedgerStorageError`: `damaged` if the ledger is of a newer version, `readOnly` if it is missing or of
    ///   an older one and `upgrades` is false, `unavailable` if the database cannot be reached or the settings are not
    ///   safe.
    public init(
        _ settings: PostgresSettings, upgrades: Bool = true, clock: ContinuousClock,
        random: some RandomNumberGenerator & Sendable
    ) async throws {
        var random = random
        proof = Int64.random(in: 0..<64, using: &random)
        self.clock = clock
        self.random = Mutex(random)
        do {
            pool = try ConnectionPool(settings, clock: clock)
            let migrator = Migrator(pool: pool)
            if upgrades { try await migrator.migrate() } else { try await migrator.requireCurrent() }
            packs = try await migrator.packsDocuments()
        } catch let failure as PostgresFailure {
            throw failure.storageError
        }
    }

    /// Closes the connections that are not in use, and the others after their requests.
    public func close() { pool.close() }
}

/// What commits of one process wait for each other about.
private enum CommitKey: Hashable {
    case chain(ChainKey)
    case customer(CustomerID)
    case job(Job.ID)

    static func keys(of query: LedgerQuery) -> Set<CommitKey> {
        Set(query.chains.map(chain) + query.customers.map(customer) + query.jobs.map(job))
    }
}

// MARK: - Loading and committing

extension PostgresLedgerStorage {
    public func load(_ query: LedgerQuery) async throws -> LedgerSnapshot {
        // Once it was sent, a load cannot be cancelled, but does not take long.
        try Task.checkCancellation()
        return try await translated {
            let (_, loaded) = try await self.loaded(Footprint(query), query)
            return LedgerSnapshot(query, loaded)
        }
    }

    public func commit<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async throws -> Output {
        try await translated {
            try await self.queue.run(CommitKey.keys(of: query)) { try await self.decideAndCommit(query, decide) }
        }
    }

    /// Decides until no other commit comes in between.
    private func decideAndCommit<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async throws -> Output {
        var (conflicts, losses) = (0, 0)
        while true {
            do {
                return try await attempt(query, decide)
            } catch let failure as PostgresFailure where failure.isConflict && conflicts < Self.mostConflicts {
                conflicts += 1
                await pause(conflicts)
            } catch let failure as PostgresFailure
                where failure.isWorthAnotherConnection && losses < Self.mostLosses
            {
                // It was committed or not. The next decision sees which.
                losses += 1
            }
        }
    }

    private func attempt<Output: Sendable>(
        _ query: LedgerQuery, _ decide: LedgerDecider<Output>
    ) async throws -> Output {
        var (query, footprint) = (query, Footprint(query))
        for _ in 0..<Self.mostLoads {
            let loaded: LoadedRecords
            (footprint, loaded) = try await self.loaded(footprint, query)
            let snapshot = try await LedgerSnapshot(query, loaded, numbers: numbers(for: query, loaded))
            switch try decide(snapshot) {
            case .load(let more):
                query = query.union(more)
                footprint = footprint.union(Footprint(query))
            case .commit(let changes, let output):
                if changes.isEmpty { return output }
                let needs = footprint.union(CommitPlan.needs(of: changes, loaded))
                if needs == footprint {
                    try await commit(changes, footprint, loaded)
                    return output
                }
                footprint = needs
            }
        }
        throw LedgerStorageError(.unavailable, "A decision asked for more records too often")
    }

    /// The limit on loads for one decision: one or two lead to all that it needs, and one to what its changes need.
    private static let mostLoads = 12

    /// Loads records, and those that they lead to, until all are of one state.
    private func loaded(
        _ wanted: Footprint, _ query: LedgerQuery
    ) async throws -> (Footprint, LoadedRecords) {
        var footprint = wanted
        for _ in 0..<Self.mostLoads {
            let scopes = try await scopeNumbers(footprint.apps, footprint.scopes)
            let plan = LoadPlan(footprint, scopes)
            let loaded = try plan.records(try await read(plan.statements))
            let all = footprint.union(loaded.leads(of: query))
            if all == footprint { return (footprint, loaded) }
            footprint = all
        }
        throw LedgerStorageError(.unavailable, "Records lead to more records too often")
    }

    private func commit(
        _ changes: LedgerChanges, _ footprint: Footprint, _ loaded: LoadedRecords
    ) async throws {
        let scopes = try await addedScopes(changes.apps, changes.scopes)
        let stamp = random.withLock { Int64.random(in: 1...Int64.max, using: &$0) }
        let known = pieces.withLock { $0 }
        let plan = try CommitPlan.plan(
            changes, footprint, loaded, scopes, stamp: stamp, packs: packs, known: known)
        _ = try await pool.run(.transaction(plan.statements))
        if !plan.added.isEmpty { pieces.withLock { $0.add(plan.added) } }
    }

    private func numbers(for query: LedgerQuery, _ loaded: LoadedRecords) async throws -> [CustomerID: Int64] {
        let new = query.customers.filter { loaded.customers[$0] == nil }
        guard !new.isEmpty else { return [:] }
        while true {
            if let taken = numbers.withLock({ $0.take(new.count) }) {
                return Dictionary(zip(new.sorted { $0.id < $1.id }, taken)) { first, _ in first }
            }
            guard let rows = try await repeated(.transaction([NumberBlock.draw(new.count)])).first else { continue }
            try numbers.withLock { try $0.refill(rows) }
        }
    }

    private func pause(_ attempt: Int) async {
        let longest = min(Self.longestPause, 1 << min(attempt, 6))
        let pause = random.withLock { Int.random(in: 1...longest, using: &$0) }
        // A cancelled task pauses no more, but still finishes its commit.
        try? await clock.sleep(for: .milliseconds(pause))
    }
}

// MARK: - Requests

extension PostgresLedgerStorage {
    /// Reads one state of the database.
    private func read(_ statements: [PostgresStatement]) async throws -> [PostgresRows] {
        statements.isEmpty ? [] : try await repeated(.snapshot(statements))
    }

    /// Sends a request that may be sent twice: again if its connection ended, or if it met another transaction.
    @discardableResult
    private func repeated(_ request: PostgresRequest) async throws -> [PostgresRows] {
        var failures = 0
        while true {
            do {
                return try await pool.run(request)
            } catch let failure as PostgresFailure
                where (failure.isWorthAnotherConnection || failure.isConflict) && failures < Self.mostLosses
            {
                failures += 1
            }
        }
    }

    private func read(_ statement: PostgresStatement) async throws -> PostgresRows {
        try await read([statement]).first ?? PostgresRows()
    }

    /// Runs `body`, and translates its failures.
    private func translated<Output: Sendable>(_ body: () async throws -> Output) async throws -> Output {
        do {
            return try await body()
        } catch let failure as PostgresFailure {
            throw failure.storageError
        }
    }

    /// The numbers of apps and scopes, as far as they have any.
    private func scopeNumbers(_ apps: Set<String>, _ wanted: Set<LedgerScope>) async throws -> ScopeNumbers {
        let known = scopes.withLock { $0 }
        let unknown = known.unknown(apps: apps, scopes: wanted)
        guard !unknown.isEmpty else { return known }
        for rows in try await read(unknown.sorted().map(ScopeNumbers.find)) {
            try scopes.withLock { try $0.learn(rows) }
        }
        return scopes.withLock { $0 }
    }

    /// The numbers of apps and scopes, which are added if they are new.
    private func addedScopes(_ apps: Set<String>, _ wanted: Set<LedgerScope>) async throws -> ScopeNumbers {
        let known = try await scopeNumbers(apps, wanted)
        let unknown = known.unknown(apps: apps, scopes: wanted)
        guard !unknown.isEmpty else { return known }
        let scopes = wanted.sorted { ($0.bundleId, $0.environment.rawValue) < ($1.bundleId, $1.environment.rawValue) }
        try await repeated(
            .transaction(unknown.sorted().map(ScopeNumbers.add) + scopes.map { ScopeNumbers.add($0) }))
        return try await scopeNumbers(apps, wanted)
    }
}

// MARK: - Searches

extension PostgresLedgerStorage {
    public func dueChains(at now: Timestamp, limit: Int) async throws -> [ChainKey] {
        try await translated {
            try ChainSearch.found(try await self.read(ChainSearch.due(at: now, limit: limit))).map(\.key)
        }
    }

    public func scanDocuments(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<StoredDocument> {
        try await translated {
            let names = try DocumentSearch.names(
                try await self.read(DocumentSearch.scan(after: cursor, limit: limit)))
            var footprint = Footprint()
            footprint.documents = Set(names)
            let (_, loaded) = try await self.loaded(footprint, LedgerQuery())
            // One that is not there any more was erased after its name was read.
            let found = names.compactMap { name in loaded.rows[name].map { (name, $0.stored(loaded.parts)) } }
            let next = names.count < max(1, limit) ? nil : names.last.map { ScanCursor(rawValue: "\($0)") }
            return ScanPage(
                items: found.compactMap { $0.1 },
                damage: found.filter { $0.1 == nil }.map { "Document \($0.0) is not what was stored" }, next: next)
        }
    }

    public func scanChains(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<ChainKey> {
        try await translated {
            let found = try ChainSearch.found(try await self.read(ChainSearch.scan(after: cursor, limit: limit)))
            return ScanPage(items: found.map(\.key), next: found.count < max(1, limit) ? nil : found.last?.cursor)
        }
    }

    public func dueJobs(
        _ kind: Job.Kind, in scope: LedgerScope, at now: Timestamp, limit: Int
    ) async throws -> [Job] {
        try await translated {
            let number = try await self.scopeNumbers([], [scope]).scope(scope)
            let rows = try await self.read(JobSearch.due(kind, in: number, at: now, limit: limit))
            return try JobSearch.found(rows).map(\.job)
        }
    }

    public func scanJobs(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<Job> {
        try await translated {
            let found = try JobSearch.found(try await self.read(JobSearch.scan(after: cursor, limit: limit)))
            return ScanPage(items: found.map(\.job), next: found.count < max(1, limit) ? nil : found.last?.cursor)
        }
    }

    public func lastNotification(among count: Int) async throws -> Timestamp? {
        try await translated {
            let rows = try await self.read(DocumentSearch.lastNotification(among: count))
            return try rows.map { try $0.next(Timestamp.self) }.first
        }
    }

    public func apiKeys() async throws -> [APIKey] {
        try await translated { try APIKeySearch.found(try await self.read(APIKeySearch.all)) }
    }

    public func proveWritable() async throws {
        let proof = PostgresStatement(
            """
            INSERT INTO proof AS p (id, written) VALUES ($1, 1)
            ON CONFLICT (id) DO UPDATE SET written = p.written + 1
            """, [.integer(proof)])
        try await translated { _ = try await self.repeated(.transaction([proof])) }
    }
}

// MARK: - Events

extension PostgresLedgerStorage {
    public func events(of bundleId: String, after cursor: EventCursor?, limit: Int) async throws -> EventPage {
        let start = try cursor.map { cursor in
            guard let number = Int64(cursor.rawValue), "\(number)" == cursor.rawValue, number >= 0 else {
                throw EventCursorError.invalid
            }
            return number
        }
        return try await translated {
            let page = try await self.page(of: bundleId, after: start, limit: limit)
            guard page.hasMore else { return page.page }
            try await self.numberEvents()
            return try await self.page(of: bundleId, after: start, limit: limit).page
        }
    }

    /// - Returns: A page, and whether events that have no number yet may belong on it.
    private func page(
        of bundleId: String, after start: Int64?, limit: Int
    ) async throws -> (page: EventPage, hasMore: Bool) {
        let answers = try await read([
            EventSearch.erased(bundleId), EventSearch.last, EventSearch.page(bundleId, after: start, limit: limit),
            EventSequencer.isNeeded,
        ])
        let numbers = try answers.map { try $0.map { try? $0.next(Int64.self) }.first ?? nil }
        let erased = numbers[0] ?? 0
        let first = start ?? erased
        let hasMore = numbers[3] ?? 0 > 0
        // A cursor above the last number is none, unless another server has numbered events meanwhile.
        guard first <= max(erased, numbers[1] ?? 0) else { throw EventCursorError.invalid }
        guard first >= erased else {
            throw EventCursorError.expired(oldest: EventCursor(rawValue: "\(erased)"))
        }
        let found = try EventSearch.found(answers[2])
        let next = found.last?.event.cursor ?? EventCursor(rawValue: "\(first)")
        var page = EventPage(events: found.map(\.event), customerIds: [:], next: next)
        for (id, event) in found {
            if let customer = event.customer, let id { page.customerIds[customer] = id }
        }
        return (page, hasMore && found.count < limit)
    }

    /// Numbers the events that were committed before.
    private func numberEvents() async throws {
        try await repeated(.transaction(EventSequencer.number))
        try await repeated(.transaction(EventSequencer.clear))
    }

    public func eraseEvents(before instant: Timestamp, limit: Int) async throws -> Int {
        try await translated {
            // An event that is still in the outbox would be numbered again once it is erased.
            try await self.numberEvents()
            var erased = 0
            let apps = try await self.read(PostgresStatement("SELECT id FROM apps ORDER BY id"))
            for app in try apps.map({ try $0.next(Int64.self) }) where erased < limit {
                let rows = try await self.read(EventSearch.oldest(of: app, limit: limit - erased))
                let old = try rows.map { (sequence: try $0.next(Int64.self), at: try $0.next(Timestamp.self)) }
                    .prefix { $0.at < instant }
                guard let last = old.last else { continue }
                try await self.repeated(.transaction(EventSearch.erase(of: app, upTo: last.sequence)))
                erased += old.count
            }
            return erased
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
public import PurchaseLedger
import Synchronization

/// A ledger in a PostgreSQL database, which any number of servers may use at once.
///
/// A decision takes two round trips: one loads what it looks at, in one state of the database, and one commits what it
/// changed. Nothing is locked in between. If another commit has changed anything that was loaded, the second round trip
/// commits nothing, and the decision is made again.
public final class PostgresLedgerStorage: LedgerStorage {
    private let pool: ConnectionPool
    let requests: RepeatedRequests
    let feed: EventFeed
    private let clock: ContinuousClock
    private let limits: PostgresLimits
    private let works: GroupQueue<PendingCommit, LedgerKey>
    private let loads: GroupQueue<WaitingLoad, LedgerKey>
    private let memory = Mutex(Memory())
    private let repeats = RepeatedNotifications()
    /// The quarters whose documents have no table of their own, as ``prepare(at:)`` has found.
    let missingQuarters = Mutex<[Quarters.Missing]>([])
    let knownHomes = KnownHomes()
    /// A sentence about the nodes of Citus that took no write when they were tried last; `nil` if there are none.
    let nodeConcern = Mutex<String?>(nil)
    /// Whether Citus distributes the tables, see ``Distribution``. Then works and loads share no statements.
    let isDistributed: Bool
    /// Whether a new epoch of the events begins by itself after a failover. If not, somebody must call
    /// ``beginEpoch()``.
    let showsIdentity: Bool
    private let random: Mutex<any RandomNumberGenerator & Sendable>

    private static let proofs: Int64 = 64

    /// What the storage remembers of the database in an epoch. After it the database may be a
    /// standby that had not received the last commits, and give the same numbers to others.
    private struct Memory {
        var epoch = 0
        var scopes = ScopeNumbers()
        var numbers = NumberBlock()
    }

    /// Uses what was remembered in an epoch.
    ///
    /// - Throws: `PostgresFailure.outdated` if the epoch has ended.
    private func remembered<Value>(in epoch: Int, _ body: (inout Memory) throws -> Value) throws -> Value {
        try memory.withLock { memory in
            if memory.epoch < epoch { memory = Memory(epoch: epoch) }
            guard memory.epoch == epoch else { throw PostgresFailure.outdated }
            return try body(&memory)
        }
    }

    /// Runs `body` with the present epoch, and again if it ends meanwhile.
    func inOneEpoch<Value>(_ body: (Int) async throws -> Value) async throws -> Value {
        var ends = 0
        var losses = 0
        while true {
            do {
                return try await body(pool.epoch)
            } catch PostgresFailure.outdated where ends < Self.maxConflicts {
                ends += 1
                await pause(ends)
            } catch let failure as PostgresFailure
                where failure.isWorthAnotherConnection && losses < RepeatedRequests.maxLosses
            {
                losses += 1
            }
        }
    }

    /// How often a decision is made again. Each time another commit has succeeded meanwhile.
    private static let maxConflicts = 100

    /// How many works are committed together at most. A conflict takes all of them back.
    private static let maxGroup = 32

    /// How many groups of works are committed at once: while one waits for the disk, the others are decided about.
    private static let commits = 4

    /// How many loads share a request at most, so that the first one does not wait long for the last.
    private static let maxGather = 64

    /// How many groups of loads are read at once.
    private static let reads = 4

    /// The longest pause before a decision is made again.
    private static let maxPause = 50

    /// Opens a ledger.
    ///
    /// - Parameters:
    ///   - upgrades: Whether to make the tables if there are none, and to bring older ones up to date.
    ///   - continuesCopy: Whether to open half a copy too, to go on with it.
    ///   - clock: Measures deadlines and pauses.
    ///   - random: Chooses versions of records, and pauses after conflicts.
    /// - Throws: `LedgerStorageError`: `damaged` if the ledger is of a newer version, `readOnly` if it is missing or of
    ///   an older one and `upgrades` is false, `unfinishedCopy` if it is half a copy, `unavailable` if the database
    ///   cannot be reached or the settings are not safe.
    public init(
        _ settings: PostgresSettings, upgrades: Bool = true, continuesCopy: Bool = false, clock: ContinuousClock,
        random: some RandomNumberGenerator & Sendable
    ) async throws {
        var random = random
        self.clock = clock
        limits = settings.limits
        do {
            let hosts = try settings.hosts(using: &random)
            var settings = settings
            settings.schema = try await SchemaContent.find(settings, hosts: hosts, clock: clock)
            let pool = try ConnectionPool(settings, hosts: hosts, clock: clock)
            self.pool = pool
            requests = RepeatedRequests(pool: pool)
            self.random = Mutex(random)
            let migrator = Migrator(pool: pool)
            if upgrades { try await Distribution.requireNode(requests) }
            // Before anything is changed, and again, since a copy may have begun while this waited for its tables. An
            // older ledger has the record once it was upgraded.
            if !continuesCopy, try await migrator.version() == Schema.version { try await Self.requireWhole(requests) }
            if upgrades { try await migrator.migrate() } else { try await migrator.requireCurrent() }
            isDistributed = try await Distribution.run(requests, upgrades: upgrades)
            if !continuesCopy { try await Self.requireWhole(requests) }
            // A role that may not ask gets an error.
            let identity = DatabaseIdentity.read(try? await requests.read(DatabaseIdentity.statement))
            // Each node of Citus fails over by itself, which this identity does not show.
            showsIdentity = identity != nil && !isDistributed
            feed = EventFeed(
                requests, clock: clock, lockLimit: limits.counter, isDistributed: isDistributed,
                showsIdentity: showsIdentity)
            let width = max(1, settings.connections)
            let shares = settings.sharesStatements && !isDistributed
            works = GroupQueue(
                width: shares ? Self.commits : width, largest: shares ? Self.maxGroup : 1, clock: clock,
                on: { pool.loop }, refuse: { $0.fail(Self.overload) })
            loads = GroupQueue(
                width: shares ? Self.reads : width, largest: shares ? Self.maxGather : 1, clock: clock,
                on: { pool.loop }, refuse: { $0.answer(.failure(Self.overload)) })
        } catch let failure as PostgresFailure {
            throw failure.storageError
        }
    }

    /// The version of the tables that this version of the software makes.
    public static var newestVersion: Int { Schema.version }

    /// The version of the tables in a database; `nil` if it has no ledger.
    ///
    /// - Throws: `LedgerStorageError`, as ``init(_:upgrades:continuesCopy:clock:random:)`` does.
    public static func version(
        in settings: PostgresSettings, clock: ContinuousClock, random: some RandomNumberGenerator
    ) async throws -> Int? {
        var random = random
        do {
            let hosts = try settings.hosts(using: &random)
            var settings = settings
            settings.schema = try await SchemaContent.find(settings, hosts: hosts, clock: clock)
            let pool = try ConnectionPool(settings, hosts: hosts, clock: clock)
            defer { pool.close() }
            return try await Migrator(pool: pool).version()
        } catch let failure as PostgresFailure {
            throw failure.storageError
        }
    }

    /// Closes the connections that are not in use, and the others after their requests.
    public func close() { pool.close() }
}

// MARK: - Loading and committing

extension PostgresLedgerStorage {
    public func load(_ query: LedgerQuery) async throws -> LedgerSnapshot {
        // Once it was sent, a load cannot be cancelled.
        try Task.checkCancellation()
        return try await withCheckedThrowingContinuation { continuation in
            loads.add(WaitingLoad(query: query) { continuation.resume(with: $0) }) { await self.answer($0) }
        }
    }

    public func commit<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async throws -> Output {
        try await withCheckedThrowingContinuation { continuation in
            let work = PendingCommit(query, decide) { continuation.resume(with: $0) }
            works.add(work, query.keys, isAlone: !query.keys.allSatisfy(\.isFoldable)) { await self.run($0) }
        }
    }

    private static let overload = LedgerStorageError(
        .unavailable, "Too many requests wait for the database, or this one waited too long")

    /// Answers loads from one state of the database. If a record cannot be read, or takes too long, only those fail
    /// that need it.
    func answer(_ group: [WaitingLoad]) async {
        await answer(group, limit: group.count > 1 ? limits.sharedRead : nil)
    }

    /// - Parameter limit: How long each statement may take.
    private func answer(_ group: [WaitingLoad], limit: Duration?) async {
        let start = clock.now
        do {
            let queries = group.map(\.query)
            let (_, loaded) = try await inOneEpoch {
                try await self.loaded(queries.readSet, queries, in: $0, limit: limit)
            }
            for load in group { load.answer(Result { try LedgerSnapshot(load.query, loaded) }) }
        } catch  where group.count > 1 && Self.isOfOne(error) && start.duration(to: clock.now) < limits.group {
            await withDiscardingTaskGroup { tasks in
                for load in group { tasks.addTask { await self.answer([load], limit: self.limits.readAlone) } }
            }
        } catch {
            for load in group { load.answer(.failure(Self.translated(error))) }
        }
    }

    /// Decides about works and commits them together, until no other commit comes in between.
    ///
    /// If that fails because of one of them, the halves are decided about again, so that no work fails for another one.
    /// After a time-out each of them is, all at once: halves would wait for each other, and time out too.
    func run(_ group: [PendingCommit]) async {
        await run(group, group.count > 1 ? (limits.sharedRead, limits.sharedLock) : (nil, nil))
    }

    /// How long each statement that reads may take, and how long a commit may wait for a lock; `nil` for the limits of
    /// the session.
    private typealias Waits = (read: Duration?, lock: Duration?)

    private func run(_ group: [PendingCommit], _ waits: Waits) async {
        let start = clock.now
        var conflicts = 0
        var losses = 0
        while true {
            do {
                let isFirst = conflicts + losses == 0
                let alone = try await attempt(group, waits, in: pool.epoch, looksAllUp: !isFirst)
                for work in alone { await run([work]) }
                return
            } catch let failure as PostgresFailure where group.count > 1 && failure.isTimeout {
                guard start.duration(to: clock.now) < limits.group else {
                    return group.forEach { $0.fail(failure.storageError) }
                }
                let waits = (limits.readAlone, limits.sharedLock)
                return await withDiscardingTaskGroup { tasks in
                    for work in group { tasks.addTask { await self.run([work], waits) } }
                }
            } catch  where group.count > 1 && Self.isOfOne(error) {
                await run(Array(group.prefix(group.count / 2)), waits)
                return await run(Array(group.dropFirst(group.count / 2)), waits)
            } catch let failure as PostgresFailure where failure.isConflict && conflicts < Self.maxConflicts {
                conflicts += 1
                await pause(conflicts)
            } catch PostgresFailure.outdated where conflicts < Self.maxConflicts {
                // A connection of another request has ended.
                conflicts += 1
                await pause(conflicts)
            } catch let failure as PostgresFailure
                where failure.isWorthAnotherConnection && losses < RepeatedRequests.maxLosses
            {
                // It was committed or not. The next decision sees which.
                losses += 1
            } catch {
                return group.forEach { $0.fail(Self.translated(error)) }
            }
        }
    }

    /// Whether a failure may be of one work or load of a group alone.
    private static func isOfOne(_ error: any Error) -> Bool {
        guard let failure = error as? PostgresFailure else { return true }
        if failure.isTimeout { return true }
        guard case .refused = failure else { return false }
        return !failure.endsConnection
    }

    /// Commits a group, and answers it.
    ///
    /// - Parameter looksAllUp: Whether to look all documents up.
    /// - Returns: Those that must be alone, without an answer.
    private func attempt(
        _ group: [PendingCommit], _ waits: Waits, in epoch: Int, looksAllUp: Bool
    ) async throws -> [PendingCommit] {
        var queries = group.map(\.query)
        var readSet = queries.readSet
        let new = looksAllUp ? [] : repeats.presumedNew(of: queries)
        for _ in 0..<Self.maxLoads {
            let loaded: LoadedRecords
            (readSet, loaded) = try await self.loaded(
                readSet, queries, except: new, in: epoch, limit: waits.read)
            var pass = GroupPass(group, queries, readSet, loaded)
            pass.decide(numbers: try await numbers(for: queries, loaded, in: epoch))
            if pass.isComplete {
                // The key of a document tells whether it is there only if it is stored now.
                guard new.isSubset(of: pass.draft.after.names) else {
                    return try await attempt(group, waits, in: epoch, looksAllUp: true)
                }
                do {
                    try await pass.draft.writes.isEmpty
                        ? confirm(pass.queries, in: epoch) : commit(pass.draft, in: epoch, lockLimit: waits.lock)
                } catch PostgresFailure.refused("23505", _) where !new.isEmpty {
                    repeats.noteRefusal()
                    return try await attempt(group, waits, in: epoch, looksAllUp: true)
                }
                if new.isEmpty { repeats.noteLookUp(queries, stored: loaded.names) }
                for answer in pass.answers { answer() }
                return pass.alone
            }
            queries = pass.queries
            readSet.formUnion(pass.needs)
        }
        throw LedgerStorageError(.unavailable, "A decision asked for more records too often")
    }

    /// The limit on loads for one decision, and on those for one load: one or two lead to all that it needs, and one to
    /// what its changes need.
    private static let maxLoads = 12

    /// Loads records, and those that they lead to, until all are of one state.
    ///
    /// - Parameters:
    ///   - new: Documents not to look up, see ``RepeatedNotifications``.
    ///   - limit: How long each statement may take.
    /// - Throws: Also `PostgresFailure.outdated`, as do those below that are given an epoch.
    func loaded(
        _ wanted: ReadSet, _ queries: [LedgerQuery], except new: Set<Provenance> = [], in epoch: Int,
        limit: Duration? = nil
    ) async throws -> (ReadSet, LoadedRecords) {
        var readSet = wanted
        for _ in 0..<Self.maxLoads {
            let scopes = try await scopeNumbers(readSet.apps, readSet.scopes, in: epoch)
            let plan = LoadPlan(readSet, except: new, scopes, homes: isDistributed ? homes(readSet, queries) : nil)
            var loaded = try plan.records(try await read(plan.statements, in: epoch, limit))
            guard try await addParts(to: &loaded, &readSet, in: epoch, limit) else { continue }
            if let homes = loaded.homes { knownHomes.note(homes) }
            let dependencies = loaded.dependencies(of: queries)
            readSet.keys.formUnion(loaded.chains.keys.map(LedgerKey.chain))
            if readSet.contains(dependencies) { return (readSet, loaded) }
            readSet.formUnion(dependencies)
        }
        throw LedgerStorageError(.unavailable, "Records lead to more records too often")
    }

    /// The homes of documents to load, as far as they are known.
    private func homes(_ readSet: ReadSet, _ queries: [LedgerQuery]) -> [Provenance: String] {
        let names = readSet.keys.compactMap { key -> Provenance? in
            switch key {
            case .document(let name), .content(let name): name
            default: nil
            }
        }
        return queries.homes.merging(knownHomes.homes(of: Set(names))) { first, _ in first }
    }

    /// Loads what packed documents name. It never changes, so it need not be of the same state.
    ///
    /// - Returns: False if a part is gone: then its document is gone too, unless it is damaged, and all must be loaded
    ///   again.
    private func addParts(
        to loaded: inout LoadedRecords, _ readSet: inout ReadSet, in epoch: Int, _ limit: Duration?
    ) async throws -> Bool {
        for _ in 0..<Self.maxLoads {
            let known = readSet.dependencies.compactMap { if case .part(let part) = $0 { part } else { nil } }
            let further = ReadSet(dependencies: Set(loaded.parts(besides: Set(known)).map(Dependency.part)))
            guard !further.dependencies.isEmpty else { return true }
            readSet.formUnion(further)
            let plan = LoadPlan(further, ScopeNumbers(), homes: isDistributed ? [:] : nil)
            let found = try plan.records(try await read(plan.statements, in: epoch, limit)).parts
            loaded.parts.merge(found) { first, _ in first }
            guard found.count == further.dependencies.count else { return false }
        }
        return true
    }

    /// Reads one state of the database. Citus has none of all nodes, so there a request is bounded instead.
    private func read(
        _ statements: [PostgresStatement], in epoch: Int, _ limit: Duration?
    ) async throws -> [PostgresRows] {
        guard isDistributed else {
            return try await requests.read(statements, during: epoch, statementLimit: limit)
        }
        var answers: [PostgresRows] = []
        var rest = statements[...]
        while !rest.isEmpty {
            answers += try await requests.read(
                Array(rest.prefix(Self.maxRequest)), during: epoch, statementLimit: limit)
            rest = rest.dropFirst(Self.maxRequest)
        }
        return answers
    }

    /// How many statements a request to Citus has at most: some take 25 milliseconds there, and all of a request must
    /// be answered in ten seconds, also while others wait.
    private static let maxRequest = 50

    private func commit(_ group: GroupDraft, in epoch: Int, lockLimit: Duration?) async throws {
        let scopes = try await addedScopes(group.apps, group.scopes, in: epoch)
        let stamp = random.withLock { Int64.random(in: 1...Int64.max, using: &$0) }
        let statements = try CommitPlan.statements(
            group, scopes, stamp: stamp, isDistributed: isDistributed)
        _ = try await pool.run(.transaction(statements, lockLimit: lockLimit).during(epoch))
        // A block that was drawn before may have numbers below the mark.
        if group.changes.marks.lastCustomer > 0 { memory.withLock { $0.numbers = NumberBlock() } }
        if !group.changes.events.isEmpty { feed.numberSoon() }
    }

    /// Waits until a synchronous standby has what was loaded, if one is required. Otherwise it writes nothing.
    ///
    /// - Parameter queries: What was loaded.
    private func confirm(_ queries: [LedgerQuery], in epoch: Int) async throws {
        guard !isDistributed else { return try await confirm(atHomes: queries.namedHomes, in: epoch) }
        // A standby cannot say whether the others have it: there the write fails.
        let search = PostgresStatement(
            "SELECT pg_is_in_recovery() OR current_setting('synchronous_standby_names') <> ''")
        let answers = try await requests.read([search], during: epoch)
        let isRequired = try answers[0].map { try $0.next(Bool.self) }.first
        if isRequired == true { try await confirm(in: epoch) }
    }

    /// A write that changes no record, of a row of several, so that nobody waits for others.
    func proofOfWriting() -> PostgresStatement {
        let row = random.withLock { Int64.random(in: 0..<Self.proofs, using: &$0) }
        return PostgresStatement(
            """
            INSERT INTO quittance.proof AS p (id, written) VALUES ($1, 1)
            ON CONFLICT (id) DO UPDATE SET written = p.written + 1
            """, [.integer(row)])
    }

    private func numbers(
        for queries: [LedgerQuery], _ loaded: LoadedRecords, in epoch: Int
    ) async throws -> [CustomerID: Int64] {
        let new = Set(queries.flatMap(\.keys.customerIDs)).filter { loaded.customers[$0] == nil }
        guard !new.isEmpty else { return [:] }
        while true {
            if let taken = try remembered(in: epoch, { $0.numbers.take(new.count) }) {
                return Dictionary(zip(new.sorted { $0.id < $1.id }, taken)) { first, _ in first }
            }
            let draw = PostgresRequest.transaction([NumberBlock.draw(new.count)]).during(epoch)
            let rows = try await requests.send(draw).first ?? PostgresRows()
            try remembered(in: epoch) { try $0.numbers.refill(rows) }
        }
    }

    private func pause(_ attempt: Int) async {
        let longest = min(Self.maxPause, 1 << min(attempt, 6))
        let pause = random.withLock { Int.random(in: 1...longest, using: &$0) }
        // After a cancellation the next attempt ends at once.
        try? await clock.sleep(for: .milliseconds(pause))
    }
}

// MARK: - Failures

extension PostgresLedgerStorage {
    /// Runs `body`, and translates its failures.
    func translated<Output: Sendable>(_ body: () async throws -> Output) async throws -> Output {
        do {
            return try await body()
        } catch {
            throw Self.translated(error)
        }
    }

    private static func translated(_ error: any Error) -> any Error {
        (error as? PostgresFailure)?.storageError ?? error
    }
}

// MARK: - Scopes

extension PostgresLedgerStorage {
    /// The numbers of apps and scopes, as far as they have any.
    func scopeNumbers(
        _ apps: Set<String>, _ wanted: Set<LedgerScope>, in epoch: Int
    ) async throws -> ScopeNumbers {
        var known = try remembered(in: epoch) { $0.scopes }
        let unknown = known.unknown(apps: apps, scopes: wanted)
        guard !unknown.isEmpty else { return known }
        for rows in try await requests.read(unknown.sorted().map(ScopeNumbers.find), during: epoch) {
            try known.learn(rows)
            try remembered(in: epoch) { try $0.scopes.learn(rows) }
        }
        return known
    }

    /// The numbers of apps and scopes, which are added if they are new.
    private func addedScopes(
        _ apps: Set<String>, _ wanted: Set<LedgerScope>, in epoch: Int
    ) async throws -> ScopeNumbers {
        let known = try await scopeNumbers(apps, wanted, in: epoch)
        let unknown = known.unknown(apps: apps, scopes: wanted)
        guard !unknown.isEmpty else { return known }
        try await requests.send(
            .transaction(unknown.sorted().map(ScopeNumbers.add) + wanted.sorted().map { ScopeNumbers.add($0) }))
        return try await scopeNumbers(apps, wanted, in: epoch)
    }
}

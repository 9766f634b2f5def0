// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
public import PurchaseLedger
import Synchronization

/// A ledger in a PostgreSQL database, shared by any number of servers.
///
/// A decision reads records and returns changes to them. It usually takes two round trips. The first loads the records
/// that the decision reads, from a single state of the database. The second commits the changes. No row is locked in
/// between. If a concurrent commit has changed a loaded record, the second round trip commits nothing, and the storage
/// loads the records and decides again. Citus has no single state of all nodes. On Citus only the second round trip
/// detects that the loaded records do not belong together.
public final class PostgresLedgerStorage: LedgerStorage {
    private let pool: ConnectionPool
    let requests: RepeatedRequests
    let feed: EventFeed
    private let clock: ContinuousClock
    private let limits: PostgresLimits
    private let queue: GroupQueue<PendingCommit, LedgerKey>
    private let loads: GroupQueue<WaitingLoad, LedgerKey>
    private let memory = Mutex(Memory())
    private let repeats = RepeatedNotifications()
    /// The calendar quarters without a table for the documents signed in them, as the last ``prepare(at:)`` found them.
    let missingQuarters = Mutex<[Quarters.Missing]>([])
    let knownHomes = KnownHomes()
    /// A sentence about the Citus nodes that refused the last test write; `nil` if every node took the write.
    let nodeConcern = Mutex<String?>(nil)
    /// Whether Citus distributes the tables, see ``Distribution``. If so, commits and loads are not batched.
    let isDistributed: Bool
    /// Whether the storage notices a failover, and then begins a new epoch of the events, so that a number assigned to
    /// a lost event is not mistaken for the number of a new event. If false, the operator must begin the epoch with
    /// ``beginEpoch(at:)``.
    let showsIdentity: Bool
    private let random: Mutex<any RandomNumberGenerator & Sendable>

    private static let proofs: Int64 = 64

    /// Values cached from the database. They are valid during an epoch of the connection pool, in which all connections
    /// surely lead to the same database, see ``ConnectionOpener/epoch``. In the next epoch the database may be a former
    /// standby without the last commits. This database can give the cached numbers to other apps and customers.
    private struct Memory {
        var epoch = 0
        var scopes = ScopeNumbers()
        var numbers = NumberBlock()
    }

    /// Accesses the values cached in an epoch.
    ///
    /// - Throws: `PostgresFailure.outdated` if the epoch has ended.
    private func remembered<Value>(in epoch: Int, _ body: (inout Memory) throws -> Value) throws -> Value {
        try memory.withLock { memory in
            if memory.epoch < epoch { memory = Memory(epoch: epoch) }
            guard memory.epoch == epoch else { throw PostgresFailure.outdated }
            return try body(&memory)
        }
    }

    /// Runs `body` with the current epoch. Runs `body` again if the epoch ends or the connection is lost.
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

    /// The maximum number of retries after conflicts and ended epochs. It may be high, because a conflict means that a
    /// concurrent commit got ahead, so the servers together make progress.
    private static let maxConflicts = 100

    /// The maximum number of commits in a batch. A conflict rolls the whole batch back.
    private static let maxGroup = 32

    /// The maximum number of concurrent batches of commits. While one batch waits for the disk, the storage decides the
    /// others.
    private static let commits = 4

    /// The maximum number of loads in a batch. All loads of a batch are answered together, so in a larger batch the
    /// first would wait long for the last.
    private static let maxGather = 64

    /// The maximum number of concurrent batches of loads.
    private static let reads = 4

    /// The longest pause before a retry, in milliseconds.
    private static let maxPause = 50

    /// Opens a ledger.
    ///
    /// - Parameters:
    ///   - upgrades: Whether to take the steps that the tables of the ledger lack, and to distribute the tables
    ///     if the database has Citus.
    ///   - continuesCopy: Whether to open even an unfinished copy of a different ledger, so that the caller can
    ///     continue the copy.
    ///   - clock: Measures deadlines and pauses.
    ///   - random: Chooses the order of hosts, the new versions of customers and records, the pauses after conflicts,
    ///     and the row for a write without a change.
    /// - Throws: `LedgerStorageError`: `damaged` if the ledger has a newer version, or a version that no release wrote.
    ///   `readOnly` if `upgrades` is false and the ledger is missing or older, or if the tables must be
    ///   created, changed or distributed and this role or Citus node may not do so. `unfinishedCopy` if the ledger is
    ///   an unfinished copy and `continuesCopy` is false. `unavailable` if the database cannot be reached or is
    ///   unsuitable, or if the settings are unsafe.
    public init(
        _ settings: PostgresSettings, upgrades: Bool = true, continuesCopy: Bool = false, clock: ContinuousClock,
        random: some RandomNumberGenerator & Sendable
    ) async throws {
        var random = random
        self.clock = clock
        limits = settings.limits
        do {
            let pool = try ConnectionPool(settings, hosts: settings.hosts(using: &random), clock: clock)
            self.pool = pool
            requests = RepeatedRequests(pool: pool)
            self.random = Mutex(random)
            if settings.schema == nil { try await SchemaContent.requireNoneElsewhere(pool) }
            let migrator = Migrator(pool: pool)
            if upgrades { try await Distribution.requireNode(requests) }
            // An unfinished copy is refused before any change, and again below, because a copy may begin while this
            // server waits for the tables.
            if !continuesCopy, try await migrator.version() != nil { try await Self.requireWhole(requests) }
            if upgrades { try await migrator.migrate() } else { try await migrator.requireCurrent() }
            isDistributed = try await Distribution.run(requests, upgrades: upgrades)
            if !continuesCopy { try await Self.requireWhole(requests) }
            // The database refuses the query if the role lacks the right to read the identity. The identity then stays
            // unknown.
            let identity = DatabaseIdentity.read(try? await requests.read(DatabaseIdentity.statement))
            // Each Citus node fails over separately, and the identity does not show such a failover.
            showsIdentity = identity != nil && !isDistributed
            feed = EventFeed(
                requests, clock: clock, lockLimit: limits.counter, isDistributed: isDistributed,
                showsIdentity: showsIdentity, numbers: settings.numbersEvents)
            let width = max(1, settings.connections)
            let shares = settings.sharesStatements && !isDistributed
            queue = GroupQueue(
                width: shares ? Self.commits : width, largest: shares ? Self.maxGroup : 1, clock: clock,
                on: { pool.loop }, refuse: { $0.fail(Self.overload) })
            loads = GroupQueue(
                width: shares ? Self.reads : width, largest: shares ? Self.maxGather : 1, clock: clock,
                on: { pool.loop }, refuse: { $0.answer(.failure(Self.overload)) })
        } catch let failure as PostgresFailure {
            throw failure.storageError
        }
    }

    /// The version of the tables in this release of the software.
    public static var newestVersion: Int { Schema.steps.version }

    /// The version of the tables in a database; `nil` if the database has no ledger.
    ///
    /// - Throws: `LedgerStorageError`: `damaged` if the ledger has a newer version, or a version that no release wrote.
    ///   `unavailable` if the database cannot be reached, if the settings are unsafe, or if the schema has tables of
    ///   other software.
    public static func version(
        in settings: PostgresSettings, clock: ContinuousClock, random: some RandomNumberGenerator
    ) async throws -> Int? {
        var random = random
        do {
            let pool = try ConnectionPool(settings, hosts: settings.hosts(using: &random), clock: clock)
            defer { pool.close() }
            if settings.schema == nil { try await SchemaContent.requireNoneElsewhere(pool) }
            return try await Migrator(pool: pool).version()
        } catch let failure as PostgresFailure {
            throw failure.storageError
        }
    }

    /// Closes idle connections at once, and busy connections after their requests.
    public func close() { pool.close() }
}

// MARK: - Loading and committing

extension PostgresLedgerStorage {
    public func load(_ query: LedgerQuery) async throws -> LedgerSnapshot {
        // A load cannot be cancelled after this point.
        try Task.checkCancellation()
        return try await withCheckedThrowingContinuation { continuation in
            loads.add(WaitingLoad(query: query) { continuation.resume(with: $0) }) { await self.answer($0) }
        }
    }

    public func commit<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async throws -> Output {
        try await withCheckedThrowingContinuation { continuation in
            let commit = PendingCommit(query, decide) { continuation.resume(with: $0) }
            queue.add(commit, query.keys, isAlone: !query.keys.allSatisfy(\.isFoldable)) { await self.run($0) }
        }
    }

    private static let overload = LedgerStorageError(
        .unavailable, "Too many requests wait for the database, or this one waited too long")

    /// Answers a batch of loads from a single state of the database. If a single load may have made the batch fail, for
    /// example because a record is unreadable or slow to load, each load is tried alone, unless the batch has already
    /// taken too long. Only the loads that need this record then fail.
    func answer(_ group: [WaitingLoad]) async {
        await answer(group, limit: group.count > 1 ? limits.sharedRead : nil)
    }

    /// - Parameter limit: The timeout of each statement; `nil` for the session's timeout.
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

    /// Decides and commits a batch, and retries after each conflict with a concurrent commit.
    ///
    /// If a single commit may have made the batch fail, the batch is split in two, and one half is retried after the
    /// other. A bad commit therefore does not make the others fail. After a timeout each commit is instead retried
    /// alone, and all retries run at once, because a half that times out again would use up the time of the other half.
    func run(_ group: [PendingCommit]) async {
        await run(group, group.count > 1 ? (limits.sharedRead, limits.sharedLock) : (nil, nil))
    }

    /// The timeout of each reading statement, and the lock timeout of a commit; `nil` for the session's timeouts.
    private typealias Waits = (read: Duration?, lock: Duration?)

    private func run(_ group: [PendingCommit], _ waits: Waits) async {
        let start = clock.now
        var conflicts = 0
        var losses = 0
        while true {
            do {
                let isFirst = conflicts + losses == 0
                let alone = try await attempt(group, waits, in: pool.epoch, looksAllUp: !isFirst)
                for commit in alone { await run([commit]) }
                return
            } catch let failure as PostgresFailure where group.count > 1 && failure.isTimeout {
                guard start.duration(to: clock.now) < limits.group else {
                    return group.forEach { $0.fail(failure.storageError) }
                }
                let waits = (limits.readAlone, limits.sharedLock)
                return await withDiscardingTaskGroup { tasks in
                    for commit in group { tasks.addTask { await self.run([commit], waits) } }
                }
            } catch  where group.count > 1 && Self.isOfOne(error) {
                await run(Array(group.prefix(group.count / 2)), waits)
                return await run(Array(group.dropFirst(group.count / 2)), waits)
            } catch let failure as PostgresFailure where failure.isConflict && conflicts < Self.maxConflicts {
                conflicts += 1
                await pause(conflicts)
            } catch PostgresFailure.outdated where conflicts < Self.maxConflicts {
                // The epoch has ended, because a different request has lost its connection, or a new connection leads
                // to a different database.
                conflicts += 1
                await pause(conflicts)
            } catch let failure as PostgresFailure
                where failure.isWorthAnotherConnection && losses < RepeatedRequests.maxLosses
            {
                // The outcome of the commit is unknown. The next attempt loads the records again, and so sees the
                // outcome.
                losses += 1
            } catch {
                return group.forEach { $0.fail(Self.translated(error)) }
            }
        }
    }

    /// Whether a single commit or load of the batch may have caused the failure.
    private static func isOfOne(_ error: any Error) -> Bool {
        guard let failure = error as? PostgresFailure else { return true }
        if failure.isTimeout { return true }
        guard case .refused = failure else { return false }
        return !failure.endsConnection
    }

    /// Commits a batch and answers its callers.
    ///
    /// - Parameter looksAllUp: Whether to look up every document, including presumably new ones.
    /// - Returns: The commits to run in batches of their own. They are not answered yet.
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
                // Each document presumed new must be inserted by this commit. If the document was stored already, the
                // primary key then rejects the insertion.
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

    /// The maximum number of loads for a decision, and of rounds in a load. Usually one or two rounds load all records
    /// that the decision reads, and a further round loads the records needed to commit its changes.
    private static let maxLoads = 12

    /// Loads records and the records that they depend on. A dependency is known only once the first records are loaded.
    /// All records are then loaded again, until the loaded records depend on no further record. Without Citus, all
    /// records returned except the parts of documents are from a single state of the database.
    ///
    /// - Parameters:
    ///   - new: Documents not to look up, because they are presumed new, see ``RepeatedNotifications``.
    ///   - limit: The timeout of each statement; `nil` for the session's timeout.
    /// - Throws: `PostgresFailure.outdated` if the epoch has ended, and other errors of the database.
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

    /// The homes of the documents to load (see ``PurchaseLedger/Evidence/home``), as far as they are known. With the
    /// home of a document, Citus finds the document on a single node.
    private func homes(_ readSet: ReadSet, _ queries: [LedgerQuery]) -> [Provenance: String] {
        let names = readSet.keys.compactMap { key -> Provenance? in
            switch key {
            case .document(let name), .content(let name): name
            default: nil
            }
        }
        return queries.homes.merging(knownHomes.homes(of: Set(names))) { first, _ in first }
    }

    /// Loads the missing parts of packed documents. A part is a header, certificate or token with a row of its own, see
    /// ``PartName``. A part never changes, so it may come from a later state of the database than the document.
    ///
    /// - Returns: False if the database lacks a part. The document with this part was then erased or is damaged, and
    ///   the caller must load all records again.
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

    /// Runs reading statements. Without Citus, a single request reads a single state of the database. Citus has no
    /// single state of all nodes, so nothing is lost by splitting the statements into several requests of a bounded
    /// size there.
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

    /// The maximum number of statements in a request to Citus. Some statements take 25 milliseconds on Citus, and the
    /// whole request must be answered within ten seconds, even under load.
    private static let maxRequest = 50

    private func commit(_ group: GroupDraft, in epoch: Int, lockLimit: Duration?) async throws {
        let scopes = try await addedScopes(group.apps, group.scopes, in: epoch)
        let stamp = random.withLock { Int64.random(in: 1...Int64.max, using: &$0) }
        let statements = try CommitPlan.statements(
            group, scopes, stamp: stamp, isDistributed: isDistributed)
        _ = try await pool.run(.transaction(statements, lockLimit: lockLimit).during(epoch))
        // The commit has raised the last number given to a customer, because it copies records of a different ledger. A
        // block drawn earlier may contain lower numbers, which the copied customers may now have.
        if group.changes.marks.lastCustomer > 0 { memory.withLock { $0.numbers = NumberBlock() } }
        if !group.changes.events.isEmpty { feed.numberSoon() }
    }

    /// Waits until the required synchronous standbys have the loaded records, for a decision without changes. A write
    /// serves this purpose, because its commit waits for the standbys. On Citus the storage writes a row for each home
    /// named in the queries, because the home of a row determines its node. Without Citus the storage writes only if
    /// the database requires a synchronous standby, or is itself a standby.
    ///
    /// - Parameter queries: The queries of the loaded records.
    private func confirm(_ queries: [LedgerQuery], in epoch: Int) async throws {
        guard !isDistributed else { return try await confirm(atHomes: queries.namedHomes, in: epoch) }
        // A standby cannot tell whether other standbys have the records. The write is therefore attempted on a standby
        // too. It fails there, and so does the decision.
        let search = PostgresStatement(
            "SELECT pg_is_in_recovery() OR current_setting('synchronous_standby_names') <> ''")
        let answers = try await requests.read([search], during: epoch)
        let isRequired = try answers[0].map { try $0.next(Bool.self) }.first
        if isRequired == true { try await confirm(in: epoch) }
    }

    /// A write that changes no record. It changes one of 64 rows of the table `proof`, chosen at random, so concurrent
    /// writes rarely wait for each other.
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
        // If the task is cancelled, the sleep ends at once, and the next attempt begins without a pause.
        try? await clock.sleep(for: .milliseconds(pause))
    }
}

// MARK: - Failures

extension PostgresLedgerStorage {
    /// Runs `body`, and converts a `PostgresFailure` into a `LedgerStorageError`.
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
    /// The numbers that stand for apps and scopes in rows. A scope is an app in an environment. Apps and scopes that
    /// the ledger does not contain have no number.
    func scopeNumbers(
        _ apps: Set<String>, _ wanted: Set<LedgerScope>, in epoch: Int
    ) async throws -> ScopeNumbers {
        var known = try remembered(in: epoch) { $0.scopes }
        let unknown = known.unknown(apps: apps, scopes: wanted)
        guard !unknown.isEmpty else { return known }
        for rows in try await requests.read([ScopeNumbers.find(unknown)], during: epoch) {
            try known.learn(rows)
            try remembered(in: epoch) { try $0.scopes.learn(rows) }
        }
        return known
    }

    /// The numbers of apps and scopes, as by ``scopeNumbers(_:_:in:)``. Apps and scopes that the ledger does not
    /// contain are added first.
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

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization

/// The numbered events, and the work of numbering those that commits have put into the outbox, see ``EventSequencer``.
final class EventFeed: Sendable {
    private let requests: RepeatedRequests
    private let clock: ContinuousClock
    private let isDistributed: Bool
    /// Bounds the wait for the counter.
    private let lockLimit: PostgresStatement
    /// Whether the database says which one it is, so that what was found in it is not taken for true of another one.
    private let showsIdentity: Bool
    private let beginEpochs: PostgresStatement
    /// The readers for whom events must be numbered. They share the work, and so one connection: if another server
    /// holds the counter, they would else take all of them.
    private let readers: GroupQueue<Reader, Never>
    private let state = Mutex(State())

    private static let overload = PostgresFailure.unavailable(
        "Too many readers wait for events, or this one waited too long")

    private typealias Reader = @Sendable (Result<Void, any Error>) -> Void

    /// How long events wait for their numbers, so that many are numbered together.
    private static let pause = Duration.milliseconds(250)

    private struct State {
        /// Whether events are being numbered, and whether more were committed meanwhile.
        var isRunning = false
        var isNeeded = false
        /// The first transaction that may have left events in the outbox, as was found in an epoch.
        var first: (transaction: Int64, epoch: Int) = (0, 0)
        /// Why the last reader's events could not be numbered.
        var failure: String?

        /// - Returns: Whether to number events. Otherwise it counts as ended.
        mutating func next() -> Bool {
            isRunning = isNeeded
            isNeeded = false
            return isRunning
        }
    }

    /// - Parameters:
    ///   - lockLimit: How long a reader waits for the counter.
    ///   - isDistributed: Whether Citus distributes the tables.
    ///   - showsIdentity: Whether the database says which one it is.
    init(
        _ requests: RepeatedRequests, clock: ContinuousClock, lockLimit: Duration, isDistributed: Bool,
        showsIdentity: Bool
    ) {
        self.lockLimit = .lockLimit(lockLimit)
        self.requests = requests
        self.clock = clock
        self.isDistributed = isDistributed
        self.showsIdentity = showsIdentity
        beginEpochs = EventSequencer.beginEpochs(showsIdentity: showsIdentity)
        let pool = requests.pool
        readers = GroupQueue(
            width: 1, largest: .max, clock: clock, on: { pool.loop },
            refuse: { $0(.failure(Self.overload)) })
    }
}

// MARK: - Numbering

extension EventFeed {
    /// Numbers the events that were committed before.
    func number() async throws {
        try await withCheckedThrowingContinuation { continuation in
            readers.add({ continuation.resume(with: $0) }) { readers in
                let result: Result<Void, any Error>
                do { result = .success(try await self.numberAll()) } catch { result = .failure(error) }
                for reader in readers { reader(result) }
            }
        }
    }

    private func numberAll() async throws {
        for _ in 0..<Self.maxRounds where try await !(isDistributed ? numberOnNodes() : numberBatch()) { return }
    }

    /// The limit on rounds of one reader: new events arrive, and on several nodes other servers number them too.
    private static let maxRounds = 100

    /// - Returns: Whether there may be more.
    private func numberBatch() async throws -> Bool {
        let epoch = requests.pool.epoch
        let lock = [lockLimit, EventSequencer.lock]
        let answers: [PostgresRows]
        do {
            answers = try await requests.send(.transaction(lock + moving(in: epoch)).during(epoch))
        } catch let failure as PostgresFailure where failure.endsEpoch {
            answers = try await requests.send(.transaction(lock + [beginEpochs, EventSequencer.move(since: 0)]))
        }
        return try answers.last?.map { try $0.next(Int.self) }.first == EventSequencer.batch
    }

    /// Numbers events if the lock that comes before is held.
    private func moving(in epoch: Int) -> [PostgresStatement] {
        [beginEpochs, EventSequencer.move(since: firstTransaction(in: epoch))]
    }

    /// The first transaction that may have left events in the outbox.
    private func firstTransaction(in epoch: Int) -> Int64 {
        state.withLock { $0.first.epoch == epoch ? $0.first.transaction : 0 }
    }

    /// Notes that no transaction before this one has left events in the outbox, or will.
    private func noteEmpty(before transaction: Int64, in epoch: Int) {
        guard showsIdentity else { return }
        state.withLock { state in
            if state.first.epoch < epoch { state.first = (0, epoch) }
            if state.first.epoch == epoch { state.first.transaction = max(state.first.transaction, transaction) }
        }
    }

    /// Numbers events if Citus distributes the tables.
    ///
    /// - Returns: Whether there may be more, also because another server was faster.
    private func numberOnNodes() async throws -> Bool {
        // The counter comes first: whatever another server numbers after that changes it.
        let answers = try await requests.read([EventSearch.last, EventSequencer.oldest])
        let last = try answers[0].map { try $0.next(Int64.self) }.first ?? 0
        guard !answers[1].rows.isEmpty else { return false }
        try await requests.send(.transaction([EventSequencer.beginFirstEpochs]))
        do {
            _ = try await requests.pool.run(.transaction(EventSequencer.number(answers[1], after: last)))
        } catch let failure as PostgresFailure where failure.isConflict || failure.isWorthAnotherConnection {
            // After a cancellation the caller tries again at once.
            try? await clock.sleep(for: .milliseconds(5))
            return true
        }
        // If this fails, the next server that numbers events finds them numbered and removes them.
        try await requests.send(.transaction(EventSequencer.remove(answers[1])))
        return answers[1].rows.count == EventSequencer.nodeBatch
    }

    /// Numbers events behind the commits, so that readers find them numbered. If it fails or the storage is closed
    /// meanwhile, the next reader does it.
    func numberSoon() {
        let begins = state.withLock { state in
            let isRunning = state.isRunning
            state.isRunning = true
            state.isNeeded = true
            return !isRunning
        }
        guard begins else { return }
        Task {
            while state.withLock({ $0.next() }) {
                // Nobody cancels this task.
                try? await clock.sleep(for: Self.pause)
                guard !requests.pool.isClosed else { return }
                // Another server that is at it may be ahead of the last commit: then the next commit is not.
                _ = try? await numberIfFree()
            }
        }
    }

    /// Numbers events unless another server is at it.
    func numberIfFree() async throws {
        if isDistributed {
            _ = try await numberOnNodes()
        } else {
            let epoch = requests.pool.epoch
            let statements = [EventSequencer.lockIfFree] + moving(in: epoch)
            _ = try await requests.pool.run(.transaction(statements).during(epoch))
        }
    }

    /// Why events get no numbers; `nil` if they do.
    var concern: String? {
        state.withLock { $0.failure }.map { "Followers do not hear of new events, which get no numbers: \($0)." }
    }
}

// MARK: - Reading and erasing

extension EventFeed {
    /// A page of events as one state of the database has it.
    struct NumberedPage {
        var page: EventPage
        /// Whether events that have no number yet may belong on it.
        var mayBeIncomplete: Bool
        /// Whether a synchronous standby may still lack some of it.
        var needsConfirmation: Bool
    }

    /// The events of an app after a cursor. Numbers the newest ones if they may belong on the page. If that fails,
    /// those that have numbers are answered, and the next reader tries again.
    ///
    /// - Parameters:
    ///   - app: The number of the app, see ``ScopeNumbers``.
    ///   - epoch: The epoch in which they are read.
    /// - Throws: `EventCursorError`, `PostgresFailure`, or `LedgerStorageError.damaged`.
    func page(
        of bundleId: String, _ app: Int64, after cursor: EventCursor?, limit: Int, in epoch: Int
    ) async throws -> NumberedPage {
        let page = try await numbered(of: bundleId, app, after: cursor, limit: limit, in: epoch)
        guard page.mayBeIncomplete else { return page }
        do {
            // If a node is away, what waits on others cannot be put in order with what waits there.
            let isAnyWaiting = isDistributed ? try await self.isAnyWaiting() : true
            if isAnyWaiting { try await number() }
            state.withLock { $0.failure = nil }
        } catch let failure as PostgresFailure {
            state.withLock { $0.failure = failure.message }
            return page
        }
        // Also if none waits any more: another server may have numbered some since the page was read.
        return try await numbered(of: bundleId, app, after: cursor, limit: limit, in: epoch)
    }

    /// Whether events wait for their numbers, on any node.
    private func isAnyWaiting() async throws -> Bool {
        try await requests.read(EventSequencer.isAnyWaiting).map { try $0.next(Int64.self) }.first ?? 0 > 0
    }

    private func numbered(
        of bundleId: String, _ app: Int64, after cursor: EventCursor?, limit: Int, in epoch: Int
    ) async throws -> NumberedPage {
        let statements = [
            EventSearch.erased(app), EventSearch.last,
            EventSearch.page(app, after: cursor?.number, limit: limit, joins: !isDistributed),
            isDistributed ? EventSequencer.assumed : EventSequencer.waiting(since: firstTransaction(in: epoch)),
            // After the page, so that it has the epochs of all events on it.
            EventSearch.epochs(app),
        ]
        let answers = try await requests.read(statements, during: epoch)
        func number(_ index: Int) throws -> Int64 { try answers[index].map { try $0.next(Int64.self) }.first ?? 0 }
        let erased = try number(0)
        let last = try number(1)
        let waiting = try WaitingEvents(answers[3])
        if let transaction = waiting.emptyBefore {
            noteEmpty(before: transaction, in: epoch)
            // Another server has numbered what this one could not.
            state.withLock { $0.failure = nil }
        }
        let epochs = EventEpochs(try answers[4].map { EventEpoch(id: try $0.next(), last: try $0.next()) })
        // A cursor above the last number is none, unless another server has numbered events meanwhile.
        let first = try epochs.start(after: cursor, erased: erased, last: max(erased, last))
        let found = try EventSearch.found(answers[2], of: bundleId, epochs)
        var page = EventPage(found, after: epochs.cursor(first))
        if isDistributed { page.customerIds = try await firstIds(of: Set(page.events.compactMap(\.customer))) }
        return NumberedPage(
            page: page, mayBeIncomplete: waiting.canBeNumbered && found.count < limit,
            needsConfirmation: waiting.needConfirmation)
    }

    /// The first id of each customer that has one.
    private func firstIds(of customers: Set<Customer>) async throws -> [Customer: String] {
        guard !customers.isEmpty else { return [:] }
        let rows = try await requests.read(EventSearch.firstIds(of: customers.map(\.number)))
        let found = try rows.map { (try $0.next(Int64.self), try $0.next(String.self)) }
        let ids = Dictionary(found) { first, _ in first }
        return Dictionary(
            uniqueKeysWithValues: customers.compactMap { customer in
                ids[customer.number].map { (customer, $0) }
            })
    }

    /// Begins another epoch of each app.
    func beginEpoch() async throws {
        try await number()
        let lock = [lockLimit, EventSequencer.lock]
        try await requests.send(
            .transaction(isDistributed ? [EventSequencer.beginFirstEpochs] : lock + [beginEpochs]))
        // A number that another server gives meanwhile counts as one that was lost.
        let last = try await requests.read(EventSearch.last).map { try $0.next(Int64.self) }.first ?? 0
        try await requests.send(.transaction(EventSequencer.beginNextEpochs(after: last)))
    }

    /// Erases events that were recorded before an instant, the oldest of each app first, at most `limit`.
    ///
    /// - Returns: How many were erased.
    func erase(before instant: Timestamp, limit: Int) async throws -> Int {
        // An event that is still in the outbox would be numbered again once it is erased.
        try await number()
        var erased = 0
        let apps = try await requests.read(PostgresStatement("SELECT id FROM quittance.apps ORDER BY id"))
        for app in try apps.map({ try $0.next(Int64.self) }) where erased < limit {
            let rows = try await requests.read(EventSearch.oldest(of: app, limit: limit - erased))
            let old = try rows.map { (sequence: try $0.next(Int64.self), at: try $0.next(Timestamp.self)) }
                .prefix { $0.at < instant }
            guard let last = old.last else { continue }
            try await requests.send(.transaction(EventSearch.erase(of: app, upTo: last.sequence)))
            erased += old.count
        }
        return erased
    }
}

extension PostgresFailure {
    /// Whether a request that names an epoch may succeed in the next one.
    fileprivate var endsEpoch: Bool {
        if case .outdated = self { true } else { isWorthAnotherConnection }
    }
}

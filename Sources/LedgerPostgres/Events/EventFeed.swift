// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization

/// Reads numbered events, and numbers the events in the table `outbox`, where committed events wait for their numbers,
/// see ``EventSequencer``.
final class EventFeed: Sendable {
    private let requests: RepeatedRequests
    private let clock: ContinuousClock
    private let isDistributed: Bool
    /// The statement that bounds the wait for the lock on the counter, the row with the last number given to an event.
    private let lockLimit: PostgresStatement
    /// Whether the database reveals its identity, see ``DatabaseIdentity``. If not, a failover to a different database
    /// may go unnoticed, and this server's memory of an empty outbox would then be false. The server therefore does not
    /// remember that the outbox was empty.
    private let showsIdentity: Bool
    private let beginEpochs: PostgresStatement
    /// See ``PostgresSettings/numbersEvents``.
    private let numbers: Bool
    /// The readers waiting until events are numbered. The events are numbered once for all of them, on a single
    /// connection. Otherwise, while a different server holds the counter, the waiting readers would occupy all
    /// connections.
    private let readers: GroupQueue<Reader, Never>
    private let state = Mutex(State())

    private static let overload = PostgresFailure.unavailable(
        "Too many readers wait for events, or this reader waited too long")

    private typealias Reader = @Sendable (Result<Void, any Error>) -> Void

    /// The delay between a commit and the numbering of its events. Events of other commits arrive meanwhile, and all
    /// are numbered together.
    private static let pause = Duration.milliseconds(250)

    /// The delay after events could not be numbered, until the server tries again by itself.
    private static let retryPause = Duration.seconds(5)

    private struct State {
        /// Whether the task of ``EventFeed/numberSoon()`` is running, and whether events were committed since the task
        /// last began to number events.
        var isRunning = false
        var isNeeded = false
        /// The first transaction that may have left events in the outbox, and the epoch of the connection pool during
        /// which the server learned this, see ``ConnectionOpener/epoch``.
        var first: (transaction: Int64, epoch: Int) = (0, 0)
        /// The reason why events could not be numbered the last time.
        var failure: String?

        /// - Returns: Whether to number events again. If false, the numbering has ended.
        mutating func next() -> Bool {
            isRunning = isNeeded
            isNeeded = false
            return isRunning
        }
    }

    /// - Parameters:
    ///   - lockLimit: The maximum wait of a reader for the counter.
    ///   - isDistributed: Whether Citus distributes the tables.
    ///   - showsIdentity: Whether the database reveals its identity.
    init(
        _ requests: RepeatedRequests, clock: ContinuousClock, lockLimit: Duration, isDistributed: Bool,
        showsIdentity: Bool, numbers: Bool
    ) {
        self.numbers = numbers
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
    /// Numbers the events committed so far.
    func number() async throws {
        guard numbers else { return }
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

    /// The maximum number of rounds for a reader. A further round is needed if more events wait than a round can
    /// number, or if on Citus a different server has numbered events first or the connection was lost.
    private static let maxRounds = 100

    /// - Returns: Whether more events may be waiting.
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

    /// The statements to number events. They have no effect unless the transaction has locked the counter.
    private func moving(in epoch: Int) -> [PostgresStatement] {
        [beginEpochs, EventSequencer.move(since: firstTransaction(in: epoch))]
    }

    /// The first transaction that may have left events in the outbox; 0 if unknown.
    private func firstTransaction(in epoch: Int) -> Int64 {
        state.withLock { $0.first.epoch == epoch ? $0.first.transaction : 0 }
    }

    /// Notes that no transaction before the given one has events in the outbox, or will ever add any.
    private func noteEmpty(before transaction: Int64, in epoch: Int) {
        guard showsIdentity else { return }
        state.withLock { state in
            if state.first.epoch < epoch { state.first = (0, epoch) }
            if state.first.epoch == epoch { state.first.transaction = max(state.first.transaction, transaction) }
        }
    }

    /// Numbers events if Citus distributes the tables.
    ///
    /// - Returns: Whether more events may be waiting. This includes the case that this server could not number the
    ///   events, because another server has changed the counter first or the connection was lost.
    private func numberOnNodes() async throws -> Bool {
        // The counter is read first. If a concurrent server numbers events afterwards, it changes the counter, and the
        // commit below fails.
        let answers = try await requests.read([EventSearch.last, EventSequencer.oldest])
        let last = try answers[0].map { try $0.next(Int64.self) }.first ?? 0
        guard !answers[1].rows.isEmpty else { return false }
        try await requests.send(.transaction([EventSequencer.beginFirstEpochs]))
        do {
            _ = try await requests.pool.run(.transaction(EventSequencer.number(answers[1], after: last)))
        } catch let failure as PostgresFailure where failure.isConflict || failure.isWorthAnotherConnection {
            // If the task is cancelled, the sleep ends at once, and the caller tries again.
            try? await clock.sleep(for: .milliseconds(5))
            return true
        }
        // If the removal fails, these events stay in the outbox. The next server to number events keeps the numbers of
        // these events, and removes the events from the outbox.
        try await requests.send(.transaction(EventSequencer.remove(answers[1])))
        return answers[1].rows.count == EventSequencer.nodeBatch
    }

    /// Numbers events soon after their commit, before readers ask for them. If the numbering fails, the failure is a
    /// concern at once, and the server tries again. If the storage is closed, the next reader numbers the events.
    func numberSoon() {
        let begins = state.withLock { state in
            let isRunning = state.isRunning
            state.isRunning = true
            state.isNeeded = true
            return !isRunning
        }
        guard begins else { return }
        Task {
            var pause = Self.pause
            while state.withLock({ $0.next() }) {
                // This task is never cancelled.
                try? await clock.sleep(for: pause)
                guard !requests.pool.isClosed else { return }
                // If a concurrent server holds the counter, this call numbers nothing, and the other server may not see
                // the last commit. The events of this commit are then numbered after the next commit, or for the next
                // reader.
                do {
                    try await numberIfFree()
                    pause = Self.pause
                    state.withLock { $0.failure = nil }
                } catch {
                    pause = Self.retryPause
                    note(error)
                }
            }
        }
    }

    /// A lost connection is no concern of its own: the next attempt has another.
    private func note(_ error: any Error) {
        let failure = error as? PostgresFailure
        state.withLock { state in
            state.isNeeded = true
            if let failure, !failure.endsEpoch { state.failure = failure.message }
        }
    }

    /// Numbers events unless a concurrent server holds the counter.
    func numberIfFree() async throws {
        if isDistributed {
            _ = try await numberOnNodes()
        } else {
            let epoch = requests.pool.epoch
            let statements = [EventSequencer.lockIfFree] + moving(in: epoch)
            _ = try await requests.pool.run(.transaction(statements).during(epoch))
        }
    }

    /// The message for the operator if events could not be numbered the last time; otherwise `nil`.
    var concern: String? {
        state.withLock { $0.failure }.map {
            "New events get no numbers, and followers do not hear of the events: \($0)."
        }
    }
}

// MARK: - Reading and erasing

extension EventFeed {
    /// A page of events with numbers.
    struct NumberedPage {
        var page: EventPage
        /// Whether the page has room for further events, and committed events may be waiting for their numbers. False
        /// on a standby or a read-only database, which gives no numbers.
        var mayBeIncomplete: Bool
        /// Whether a synchronous standby may lack events of the page, and must confirm that it has them.
        var needsConfirmation: Bool
    }

    /// The events of an app after a cursor. If events without a number may belong on the page, they are numbered, and
    /// the page is read again. If the numbering fails, the page has only the events with numbers, and the next reader
    /// tries again.
    ///
    /// - Parameters:
    ///   - selection: Restricts the search; `nil` for all events.
    ///   - app: The number of the app, see ``ScopeNumbers``.
    ///   - epoch: The epoch of the connection pool for the reads, see ``ConnectionOpener/epoch``.
    /// - Throws: `EventCursorError`, `PostgresFailure`, or `LedgerStorageError.damaged`.
    func page(
        _ selection: EventSelection?, of bundleId: String, _ app: Int64, after cursor: EventCursor?, limit: Int,
        in epoch: Int
    ) async throws -> NumberedPage {
        let page = try await numbered(selection, of: bundleId, app, after: cursor, limit: limit, in: epoch)
        guard page.mayBeIncomplete else { return page }
        do {
            // On Citus every node is asked for waiting events. If a node is unreachable, no events are numbered,
            // because events of the other nodes might get numbers before older events of the unreachable node.
            let isAnyWaiting = isDistributed ? try await self.isAnyWaiting() : true
            if isAnyWaiting { try await number() }
            state.withLock { $0.failure = nil }
        } catch let failure as PostgresFailure {
            state.withLock { $0.failure = failure.message }
            return page
        }
        // The page is read again even if no events wait, because a concurrent server may have numbered events since the
        // first read.
        return try await numbered(selection, of: bundleId, app, after: cursor, limit: limit, in: epoch)
    }

    /// Whether events wait for their numbers on any node.
    private func isAnyWaiting() async throws -> Bool {
        try await requests.read(EventSequencer.isAnyWaiting).map { try $0.next(Int64.self) }.first ?? 0 > 0
    }

    private func numbered(
        _ selection: EventSelection?, of bundleId: String, _ app: Int64, after cursor: EventCursor?, limit: Int,
        in epoch: Int
    ) async throws -> NumberedPage {
        let statements = [
            EventSearch.erased(app), EventSearch.last,
            EventSearch.page(selection, app, after: cursor?.number, limit: limit, joins: !isDistributed),
            isDistributed ? EventSequencer.assumed : EventSequencer.waiting(since: firstTransaction(in: epoch)),
            // The epochs of the app's events are read after the page, so no event of the page lacks its epoch.
            EventSearch.epochs(app),
        ]
        let answers = try await requests.read(statements, during: epoch)
        func number(_ index: Int) throws -> Int64 { try answers[index].map { try $0.next(Int64.self) }.first ?? 0 }
        let erased = try number(0)
        let last = try number(1)
        let waiting = try WaitingEvents(answers[3])
        if let transaction = waiting.emptyBefore {
            noteEmpty(before: transaction, in: epoch)
            // No event waits. If this server failed to number events before, those events have been numbered since.
            state.withLock { $0.failure = nil }
        }
        let epochs = EventEpochs(try answers[4].map { EventEpoch(id: try $0.next(), last: try $0.next()) })
        // Throws if the cursor is above the last number given. On Citus the number of the last erased event may be
        // greater than the last number given, because the two are read without a common snapshot.
        let first = try epochs.start(after: cursor, erased: erased, last: max(erased, last))
        let found = try EventSearch.found(answers[2], of: bundleId, epochs)
        var page = EventPage(found, after: epochs.cursor(first))
        if let selection { page.events = page.events.filter(selection.includes) }
        if isDistributed { page.customerIds = try await firstIds(of: Set(page.events.compactMap(\.customer))) }
        return NumberedPage(
            page: page, mayBeIncomplete: numbers && waiting.canBeNumbered && found.count < limit,
            needsConfirmation: numbers && waiting.needConfirmation)
    }

    /// The cursor after the last numbered event of an app. Events that still wait for a number come after it.
    func end(of app: Int64, in epoch: Int) async throws -> EventCursor {
        // The epochs are read last, so that the epoch of the last number is among them.
        let answers = try await requests.read(
            [EventSearch.erased(app), EventSearch.last, EventSearch.epochs(app)], during: epoch)
        func number(_ index: Int) throws -> Int64 { try answers[index].map { try $0.next(Int64.self) }.first ?? 0 }
        let last = max(try number(0), try number(1))
        return EventEpochs(try answers[2].map { EventEpoch(id: try $0.next(), last: try $0.next()) }).end(last)
    }

    func cursor(beforeNewest count: Int, of app: Int64, in epoch: Int) async throws -> EventCursor? {
        let answers = try await requests.read(
            [EventSearch.sequence(app, beforeNewest: count), EventSearch.epochs(app)], during: epoch)
        let epochs = EventEpochs(try answers[1].map { EventEpoch(id: try $0.next(), last: try $0.next()) })
        return try answers[0].map { try $0.next(Int64.self) }.first.map(epochs.cursor)
    }

    /// The first id of each customer. Erased customers are left out.
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

    /// Numbers the waiting events, and then begins a new ``PurchaseLedger/EventEpoch`` of each app's events, unless the
    /// numbering has found that the database is a different one, and has begun it.
    func beginEpoch(at now: Timestamp) async throws {
        let before = try await epochs()
        try await number()
        let lock = [lockLimit, EventSequencer.lock]
        try await requests.send(
            .transaction(isDistributed ? [EventSequencer.beginFirstEpochs] : lock + [beginEpochs]))
        guard try await epochs() == before else { return }
        for round in 1... {
            let answers = try await requests.read([EventSearch.last, EventSequencer.scopes])
            let last = try answers[0].map { try $0.next(Int64.self) }.first ?? 0
            let statements = try EventSequencer.beginNextEpochs(
                after: last, answers[1], at: now.milliseconds)
            do {
                _ = try await requests.pool.run(.transaction(statements))
                return
            } catch let failure as PostgresFailure where failure.isConflict && round < Self.maxRounds {
                // A concurrent server has numbered events since the read.
            }
        }
    }

    private func epochs() async throws -> Int64? {
        try await requests.read(EventSequencer.epochs).map { try $0.next(Int64.self) }.first
    }

    /// Erases events recorded before an instant, at most `limit`. The oldest events of each app go first.
    ///
    /// - Returns: The number of erased events.
    func erase(before instant: Timestamp, limit: Int) async throws -> Int {
        // On Citus a numbered event may still be in the outbox. The numbering of all events first removes the event
        // from the outbox. Otherwise the event would be numbered again after its erasure.
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
    /// Whether a request bound to an epoch of the connection pool may succeed in the pool's next epoch.
    fileprivate var endsEpoch: Bool {
        if case .outdated = self { true } else { isWorthAnotherConnection }
    }
}

// SPDX-License-Identifier: Apache-2.0

import Dispatch
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// A thread that serves several connections to the database, and runs the tasks that use these connections.
///
/// A task on this thread sends a request and reads the answer without a change of threads. A change of threads costs as
/// much as a small statement. While a task runs, its loop cannot serve connections, so a ``ConnectionPool`` has a loop
/// for each core.
///
/// The thread pipelines waiting requests: it sends several requests on a connection without waiting for the answers in
/// between. The thread ends when no work is left, and the next task or request starts it again.
final class ConnectionLoop: TaskExecutor, Sendable {
    typealias Completion = @Sendable (Result<[PostgresRows], PostgresFailure>) -> Void

    private struct Waiting: Sendable {
        var request: PostgresRequest
        var since: ContinuousClock.Instant
        var completion: Completion
        /// Whether the request was already pipelined behind a request that timed out.
        var wasBehind = false
    }

    /// A connection with the requests sent on it.
    private struct InFlight {
        var pooled: PooledConnection
        var requests: [Waiting]
        var deadline: ContinuousClock.Instant
    }

    private struct State {
        var jobs: [UnownedJob] = []
        var waiting: [Waiting] = []
        var idle: [PooledConnection] = []
        /// The number of connections being opened.
        var opening = 0
        /// The instants until which abandoned connections count as open, because their sessions are still being ended;
        /// by the numbers that `endings` counts.
        var ending: [Int: ContinuousClock.Instant] = [:]
        var endings = 0
        /// The last failure to open a connection.
        var failure: PostgresFailure?
        var isClosed = false
        var isRunning = false
        /// Whether the state has changed since the thread last took the tasks.
        var hasChanged = false
        /// Whether the thread waits in `poll`, and so must be woken.
        var isPolling = false
    }

    /// The maximum wait of a request while all connections are busy.
    private static let queueLimit = Duration.seconds(2)

    /// The maximum number of requests sent together. The bound keeps the last request from waiting long for the first.
    private static let batchLimit = 16

    private let opener: ConnectionOpener
    private let (width, waitingLimit): (Int, Int)
    private let clock: ContinuousClock
    private let pipe: WakePipe
    private let state = Mutex(State())

    /// - Parameters:
    ///   - width: The maximum number of open connections.
    ///   - waitingLimit: The maximum number of waiting requests.
    /// - Throws: `PostgresFailure.unavailable` if the process has too many open files.
    init(
        _ opener: ConnectionOpener, width: Int, waitingLimit: Int, clock: ContinuousClock
    ) throws(PostgresFailure) {
        self.opener = opener
        self.width = width
        self.waitingLimit = waitingLimit
        self.clock = clock
        pipe = try WakePipe()
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        change { $0.jobs.append(job) }
    }

    /// Sends a request once a connection is free. Fails the request at once if too many requests wait.
    func send(_ request: PostgresRequest, _ completion: @escaping Completion) {
        let new = Waiting(request: request, since: clock.now, completion: completion)
        let isAdded = change { state in
            guard state.waiting.count < waitingLimit else { return false }
            state.waiting.append(new)
            return true
        }
        if !isAdded { completion(.failure(.unavailable("Too many requests wait for the database"))) }
    }

    var isClosed: Bool { state.withLock { $0.isClosed } }

    /// Closes idle connections at once, and busy connections after their requests.
    func close() {
        state.withLock { state in
            state.idle = []
            state.isClosed = true
        }
    }

    /// Changes the state, and starts or wakes the thread.
    @discardableResult
    private func change<Value>(_ body: (inout State) -> Value) -> Value {
        let (value, begins, wakes) = state.withLock { state in
            let value = body(&state)
            defer {
                state.isRunning = true
                state.hasChanged = true
                state.isPolling = false
            }
            return (value, !state.isRunning, state.isPolling)
        }
        // A separate queue gets a thread at once, even if there are more loops than cores.
        if begins { DispatchQueue(label: "LedgerPostgres.loop").async { self.run() } }
        if wakes { pipe.wake() }
        return value
    }
}

// MARK: - The thread

extension ConnectionLoop {
    private enum Next {
        case end
        /// Receives available answers without waiting, because there is more work.
        case look
        case wait
    }

    private func run() {
        var sent: [InFlight] = []
        while true {
            for job in takeJobs() { job.runSynchronously(on: asUnownedTaskExecutor()) }
            send(&sent)
            if !sent.isEmpty { failLate() }
            openMissing(sent.count)
            let next = next(isBusy: !sent.isEmpty)
            if next == .end { return }
            sent = receive(sent, waits: next == .wait)
        }
    }

    private func takeJobs() -> [UnownedJob] {
        state.withLock { state in
            defer { state.jobs = [] }
            state.hasChanged = false
            return state.jobs
        }
    }

    private func next(isBusy: Bool) -> Next {
        state.withLock { state in
            guard !state.hasChanged else { return .look }
            state.isRunning = isBusy || !state.waiting.isEmpty
            state.isPolling = state.isRunning
            return state.isRunning ? .wait : .end
        }
    }

    /// Receives answers, and abandons timed-out requests.
    ///
    /// - Parameter waits: Whether to wait for an answer, a task or a request.
    /// - Returns: The requests still in flight.
    private func receive(_ sent: [InFlight], waits: Bool) -> [InFlight] {
        var sockets = sent.map(\.pooled.connection.pollEntry) + [pipe.pollEntry]
        // An interrupted `poll` finds no events, and the loop calls `poll` again.
        _ = poll(&sockets, nfds_t(sockets.count), waits ? maxWait(sent) : 0)
        if waits { state.withLock { $0.isPolling = false } }
        if sockets.last?.revents != 0 { pipe.clear() }
        let now = clock.now
        return zip(sent, sockets).compactMap { sent, socket in
            guard let results = results(sent, socket.revents, now) else { return sent }
            answer(sent, results)
            return nil
        }
    }

    /// The maximum time to wait, in milliseconds; -1 if unlimited. The wait ends at the first deadline of a request in
    /// flight, when a waiting request times out while connections are busy, and as soon as a connection may be opened
    /// again.
    private func maxWait(_ sent: [InFlight]) -> Int32 {
        if sent.contains(where: \.pooled.connection.hasFailed) { return 0 }
        let (first, ended) = state.withLock { state in
            let first = state.waiting.first?.since.advanced(by: Self.queueLimit)
            return (sent.isEmpty ? nil : first, state.waiting.isEmpty ? nil : state.ending.values.min())
        }
        let ends = sent.map(\.deadline) + [first, ended, opener.pauseEnd].compactMap(\.self)
        return ends.min().map { Int32(clamping: max(0, clock.now.duration(to: $0).milliseconds)) } ?? -1
    }

    private func results(
        _ sent: InFlight, _ events: Int16, _ now: ContinuousClock.Instant
    ) -> PostgresConnection.Results? {
        let connection = sent.pooled.connection
        if events != 0 || connection.hasFailed, let results = connection.proceed(events) { return results }
        return sent.deadline <= now ? connection.end(.late) : nil
    }

    /// Answers requests. Requests that did not run go back to the front of the queue. A request pipelined behind a
    /// timed-out request goes back only once, because after a second timeout the database probably answers no request
    /// at all.
    private func answer(_ sent: InFlight, _ results: PostgresConnection.Results) {
        let connection = sent.pooled.connection
        if !connection.isUsable { opener.connectionEnded() }
        var unrun: [Waiting] = []
        for (waiting, result) in zip(sent.requests, results) {
            switch result {
            case .failure(.refused("25P02", _)):
                unrun.append(waiting)
            case .failure(.behind) where !waiting.wasBehind:
                var again = waiting
                again.wasBehind = true
                again.since = clock.now
                unrun.append(again)
            default:
                waiting.completion(result)
            }
        }
        state.withLock { state in
            state.waiting.insert(contentsOf: unrun, at: 0)
            if !state.isClosed, connection.isUsable { state.idle.append(sent.pooled) }
        }
        if connection.isAtWork { end(connection) }
    }

    /// Ends the session of an abandoned connection. Until the session ends, no other connection takes its place,
    /// because otherwise sessions would accumulate. The wait is limited to ``ConnectionCloser/placeLimit``.
    private func end(_ connection: PostgresConnection) {
        let until = clock.now.advanced(by: ConnectionCloser.placeLimit)
        let number = state.withLock { state in
            state.endings += 1
            state.ending[state.endings] = until
            return state.endings
        }
        opener.closer.end(connection) { self.change { $0.ending[number] = nil } }
    }
}

// MARK: - Sending

extension ConnectionLoop {
    /// Sends waiting requests on idle connections.
    private func send(_ sent: inout [InFlight]) {
        while let (pooled, batch) = takeBatch() {
            let requests = batch.filter { $0.request.epoch ?? pooled.epoch == pooled.epoch }
            for waiting in batch where waiting.request.epoch ?? pooled.epoch != pooled.epoch {
                waiting.completion(.failure(.outdated))
            }
            // The limit of the first request is the limit of the whole batch. After this time, only the first
            // unanswered request fails, and the later requests are sent again, each at most once.
            guard let first = requests.first else {
                state.withLock { $0.idle.append(pooled) }
                continue
            }
            let limit = first.request.limit ?? opener.limits.request
            pooled.connection.begin(requests.map { $0.request.checking(pooled.check) })
            let deadline = clock.now.advanced(by: limit)
            sent.append(InFlight(pooled: pooled, requests: requests, deadline: deadline))
        }
    }

    private func takeBatch() -> (PooledConnection, [Waiting])? {
        state.withLock { state in
            state.idle.removeAll { !opener.isUsable($0) }
            guard !state.waiting.isEmpty, let pooled = state.idle.popLast() else { return nil }
            // Leaves the other connections their share of the queue.
            let count = min(Self.batchLimit, max(1, state.waiting.count / width))
            defer { state.waiting.removeFirst(count) }
            return (pooled, Array(state.waiting.prefix(count)))
        }
    }

    /// Fails requests that waited too long while all connections were busy.
    private func failLate() {
        let oldest = clock.now.advanced(by: .zero - Self.queueLimit)
        let late = state.withLock { state in
            let late = Array(state.waiting.prefix { $0.since <= oldest })
            state.waiting.removeFirst(late.count)
            return late
        }
        for late in late {
            late.completion(.failure(.unavailable("The request waited too long for the database")))
        }
    }
}

// MARK: - Opening

extension ConnectionLoop {
    /// Opens connections for waiting requests. All waiting requests fail if a connection could not be opened and no
    /// other connection exists.
    private func openMissing(_ busy: Int) {
        let now = clock.now
        let (failure, failed, missing) = state.withLock { state in
            state.ending = state.ending.filter { $0.value > now }
            let isAlone = busy + state.opening == 0
            let failure = isAlone && state.idle.isEmpty ? state.failure : nil
            let failed = failure == nil ? [] : state.waiting
            state.failure = nil
            state.waiting.removeFirst(failed.count)
            // During a back-off (the pause after a failure to connect), attempts are made only while no connection is
            // busy or being opened. The attempts fail at once, and then all waiting requests fail together.
            let mayOpen = isAlone || !opener.isPaused
            let free = width - busy - state.ending.count
            let wanted = min(state.waiting.count, free) - state.idle.count - state.opening
            let missing = mayOpen ? max(0, wanted) : 0
            state.opening += missing
            return (failure, failed, missing)
        }
        if let failure { for waiting in failed { waiting.completion(.failure(failure)) } }
        // Opening a connection blocks, for example while the system looks up the host name.
        for _ in 0..<missing { DispatchQueue(label: "LedgerPostgres.opener").async { self.open() } }
    }

    private func open() {
        let opened: Result<PooledConnection, PostgresFailure>
        do throws(PostgresFailure) { opened = .success(try opener.open()) } catch { opened = .failure(error) }
        change { state in
            state.opening -= 1
            switch opened {
            case .success(let pooled):
                if !state.isClosed || !state.waiting.isEmpty { state.idle.append(pooled) }
                // The time spent looking for a host that responds does not count as waiting in the queue.
                for index in state.waiting.indices { state.waiting[index].since = clock.now }
            case .failure(let failure): state.failure = failure
            }
        }
    }
}

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

/// A thread that serves a few connections, and runs the tasks that use them.
///
/// A task that runs here sends a request and reads its answer without changing threads, which costs as much as a small
/// statement. Meanwhile none of the loop's connections is served, so there is a loop for each core.
///
/// The thread takes what waits and sends it together. It ends once there is nothing to wait for, and begins again with
/// the next task or request.
final class ConnectionLoop: TaskExecutor, Sendable {
    typealias Completion = @Sendable (Result<[PostgresRows], PostgresFailure>) -> Void

    private struct Waiting: Sendable {
        var request: PostgresRequest
        var since: ContinuousClock.Instant
        var completion: Completion
        /// Whether it was sent once behind a request that was not answered in time.
        var wasBehind = false
    }

    /// A connection, and the requests that were sent on it.
    private struct InFlight {
        var pooled: PooledConnection
        var requests: [Waiting]
        var deadline: ContinuousClock.Instant
    }

    private struct State {
        var jobs: [UnownedJob] = []
        var waiting: [Waiting] = []
        var idle: [PooledConnection] = []
        /// How many connections are being opened.
        var opening = 0
        /// Until when connections that were given up count as open, since their sessions are being ended.
        var ending: [Int: ContinuousClock.Instant] = [:]
        var endings = 0
        /// Why a connection could not be opened.
        var failure: PostgresFailure?
        var isClosed = false
        var isRunning = false
        /// Whether something was added since the thread looked last.
        var hasChanged = false
        /// Whether the thread waits, so that it must be woken.
        var isPolling = false
    }

    /// How long a request may wait for a connection.
    private static let queueLimit = Duration.seconds(2)

    /// How many requests are sent together at most, so that the last one does not wait long for the first.
    private static let batchLimit = 16

    private let opener: ConnectionOpener
    private let (width, waitingLimit): (Int, Int)
    private let clock: ContinuousClock
    private let pipe: WakePipe
    private let state = Mutex(State())

    /// - Parameters:
    ///   - width: How many connections to open at most.
    ///   - waitingLimit: How many requests may wait.
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

    /// Sends a request once a connection is free.
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

    /// Closes the connections that are idle, and the others after their requests.
    func close() {
        state.withLock { state in
            state.idle = []
            state.isClosed = true
        }
    }

    /// Changes the state, and makes the thread look at it.
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
        // A queue of its own gets a thread at once, also if there are fewer cores than loops.
        if begins { DispatchQueue(label: "LedgerPostgres.loop").async { self.run() } }
        if wakes { pipe.wake() }
        return value
    }
}

// MARK: - The thread

extension ConnectionLoop {
    private enum Next {
        case end
        /// Receives what has arrived, since there is more to do.
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

    /// Receives answers, and gives up what is not answered in time.
    ///
    /// - Parameter waits: Whether to wait for an answer, a task or a request.
    /// - Returns: What is not answered yet.
    private func receive(_ sent: [InFlight], waits: Bool) -> [InFlight] {
        var sockets = sent.map(\.pooled.connection.pollEntry) + [pipe.pollEntry]
        // An interrupted wait finds nothing, and the loop waits again.
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

    /// How many milliseconds to wait: until the first deadline, until a request has waited too long, or until
    /// connections can be opened again; -1 if there is no limit.
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

    /// Answers requests. Those that wait again keep their places, but are not sent behind others for ever: then the
    /// database answers nobody.
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

    /// Ends the session of a connection that was given up. Until then no other connection takes its place, so that
    /// sessions do not pile up.
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
    /// Sends what waits on the connections that are idle.
    private func send(_ sent: inout [InFlight]) {
        while let (pooled, batch) = takeBatch() {
            let requests = batch.filter { $0.request.epoch ?? pooled.epoch == pooled.epoch }
            for waiting in batch where waiting.request.epoch ?? pooled.epoch != pooled.epoch {
                waiting.completion(.failure(.outdated))
            }
            // If the first one takes too long, those behind it are sent again.
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
            // Other connections take their share.
            let count = min(Self.batchLimit, max(1, state.waiting.count / width))
            defer { state.waiting.removeFirst(count) }
            return (pooled, Array(state.waiting.prefix(count)))
        }
    }

    /// Fails what has waited too long while all connections were in use.
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
    /// Opens connections for what waits. If none can be opened and there is no other, what waits fails.
    private func openMissing(_ busy: Int) {
        let now = clock.now
        let (failure, failed, missing) = state.withLock { state in
            state.ending = state.ending.filter { $0.value > now }
            let isAlone = busy + state.opening == 0
            let failure = isAlone && state.idle.isEmpty ? state.failure : nil
            let failed = failure == nil ? [] : state.waiting
            state.failure = nil
            state.waiting.removeFirst(failed.count)
            // Others would fail at once in a pause. The first one does, and so what waits fails too.
            let mayOpen = isAlone || !opener.isPaused
            let free = width - busy - state.ending.count
            let wanted = min(state.waiting.count, free) - state.idle.count - state.opening
            let missing = mayOpen ? max(0, wanted) : 0
            state.opening += missing
            return (failure, failed, missing)
        }
        if let failure { for waiting in failed { waiting.completion(.failure(failure)) } }
        // Opening one waits, also for the system's look-up of the host's name.
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
                // Looking for a host that answers does not count as waiting for a connection.
                for index in state.waiting.indices { state.waiting[index].since = clock.now }
            case .failure(let failure): state.failure = failure
            }
        }
    }
}

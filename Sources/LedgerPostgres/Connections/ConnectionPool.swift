// SPDX-License-Identifier: Apache-2.0

import Dispatch
import PurchaseLedger
import Synchronization

/// A few connections, each with a thread, and the requests that wait for them.
///
/// A thread takes what waits and sends it together, until nothing waits any more. A request that finds too many others,
/// or that waited too long, fails: the client may retry at once, and memory stays bounded while the database is away.
final class ConnectionPool: Sendable {
    typealias Completion = @Sendable (Result<[PostgresRows], PostgresFailure>) -> Void

    private struct Waiting: Sendable {
        var request: PostgresRequest
        var since: ContinuousClock.Instant
        var completion: Completion
    }

    private struct State {
        var waiting: [Waiting] = []
        var idle: [PostgresConnection] = []
        var threads = 0
        /// The host that was connected last.
        var host = 0
        /// How often in succession no connection could be opened.
        var failures = 0
        /// Why the last connection could not be opened, and when to try again.
        var pause: (failure: PostgresFailure, end: ContinuousClock.Instant)?
    }

    /// How long a request may take once it was sent: much longer than any, and shorter than a client waits.
    private static let answerLimit = Duration.seconds(10)

    /// How long a request may wait for a connection.
    private static let queueLimit = Duration.seconds(2)

    /// How many requests may wait.
    private static let waitingLimit = 2000

    /// How many requests are sent together at most, so that the last one does not wait long for the first.
    private static let batchLimit = 16

    /// The pause after the first failure to connect, which doubles with each further one, and the longest one.
    private static let (firstPause, longestPause) = (Duration.milliseconds(100), Duration.seconds(5))

    private let options: [(name: String, value: String)]
    private let hosts: [PostgresHost]
    private let (width, usesNames): (Int, Bool)
    private let clock: ContinuousClock
    private let state = Mutex(State())

    /// - Parameter hosts: The hosts in the order in which to try them.
    /// - Throws: `PostgresFailure.settings`.
    init(
        _ settings: PostgresSettings, hosts: [PostgresHost] = [PostgresHost()], clock: ContinuousClock
    ) throws(PostgresFailure) {
        options = try settings.options()
        self.hosts = hosts
        (width, usesNames, self.clock) = (max(1, settings.connections), settings.preparesStatements, clock)
    }

    /// Sends a request.
    ///
    /// - Returns: The rows of each of its statements.
    /// - Throws: `PostgresFailure`.
    func run(_ request: PostgresRequest) async throws -> [PostgresRows] {
        try await withCheckedThrowingContinuation { continuation in
            add(request) { continuation.resume(with: $0.mapError { $0 as any Error }) }
        }
    }

    private func add(_ request: PostgresRequest, _ completion: @escaping Completion) {
        let new = Waiting(request: request, since: clock.now, completion: completion)
        let (isAdded, needsThread) = state.withLock { state in
            guard state.waiting.count < Self.waitingLimit else { return (false, false) }
            state.waiting.append(new)
            guard state.threads < width else { return (true, false) }
            state.threads += 1
            return (true, true)
        }
        guard isAdded else { return completion(.failure(.unavailable("Too many requests wait for the database"))) }
        // A queue of its own gets a thread at once, also if there are fewer cores than connections.
        if needsThread { DispatchQueue(label: "LedgerPostgres.connection").async { self.work() } }
    }

    private func work() {
        var connection = state.withLock { $0.idle.popLast() }
        while let batch = next(returning: &connection) {
            let fresh = inTime(batch)
            guard !fresh.isEmpty else { continue }
            let results = results(of: fresh.map(\.request), on: &connection)
            answer(fresh, results)
        }
    }

    /// Answers requests. Those that met the open transaction of one that failed before them did not run and wait again.
    private func answer(_ batch: [Waiting], _ results: [Result<[PostgresRows], PostgresFailure>]) {
        var unrun: [Waiting] = []
        for (waiting, result) in zip(batch, results) {
            if case .failure(.refused("25P02", _)) = result {
                unrun.append(waiting)
            } else {
                waiting.completion(result)
            }
        }
        state.withLock { $0.waiting.insert(contentsOf: unrun, at: 0) }
    }

    /// The requests to send next; `nil` if none waits. Then the thread counts as ended, and its connection is idle.
    private func next(returning connection: inout PostgresConnection?) -> [Waiting]? {
        let kept = connection
        let batch = state.withLock { state -> [Waiting]? in
            guard !state.waiting.isEmpty else {
                state.threads -= 1
                if let kept { state.idle.append(kept) }
                return nil
            }
            // Other threads take their share.
            let count = min(Self.batchLimit, max(1, state.waiting.count / width))
            defer { state.waiting.removeFirst(count) }
            return Array(state.waiting.prefix(count))
        }
        if batch == nil { connection = nil }
        return batch
    }

    /// The requests that did not wait too long. Fails the others.
    private func inTime(_ batch: [Waiting]) -> [Waiting] {
        let oldest = clock.now.advanced(by: .zero - Self.queueLimit)
        for late in batch where late.since < oldest {
            late.completion(.failure(.unavailable("The request waited too long for the database")))
        }
        return batch.filter { $0.since >= oldest }
    }

    private func results(
        of requests: [PostgresRequest], on connection: inout PostgresConnection?
    ) -> [Result<[PostgresRows], PostgresFailure>] {
        do throws(PostgresFailure) {
            let used: PostgresConnection
            if let connection { used = connection } else { used = try open() }
            let results = used.run(requests, deadline: clock.now.advanced(by: Self.answerLimit))
            connection = used.isUsable ? used : nil
            // If one connection ended, the others have probably ended too.
            if !used.isUsable { state.withLock { $0.idle = [] } }
            return results
        } catch {
            return requests.map { _ in .failure(error) }
        }
    }
}

// MARK: - Opening

extension ConnectionPool {
    private func open() throws(PostgresFailure) -> PostgresConnection {
        let now = clock.now
        if let pause = state.withLock({ $0.pause }), now < pause.end { throw pause.failure }
        do throws(PostgresFailure) {
            let connection = try openAny()
            state.withLock { ($0.failures, $0.pause) = (0, nil) }
            return connection
        } catch {
            state.withLock { state in
                let pause = min(Self.longestPause, Self.firstPause * (1 << min(state.failures, 6)))
                state.failures += 1
                state.pause = (error, clock.now.advanced(by: pause))
            }
            throw error
        }
    }

    /// Tries the hosts from the one that was connected last, until one takes a connection.
    private func openAny() throws(PostgresFailure) -> PostgresConnection {
        let (first, deadline) = (state.withLock { $0.host }, clock.now.advanced(by: Self.answerLimit))
        var messages: [String] = []
        for place in (0..<hosts.count).map({ (first + $0) % hosts.count }) where clock.now < deadline {
            do throws(PostgresFailure) {
                let connection = try PostgresConnection(
                    options, to: hosts[place], usesNames: usesNames, clock: clock)
                state.withLock { $0.host = place }
                return connection
            } catch {
                messages.append(error.message)
            }
        }
        throw .unavailable(messages.joined(separator: "; "))
    }

    /// Closes the connections that are idle. Others close after their requests.
    func close() {
        state.withLock { $0.idle = [] }
    }
}

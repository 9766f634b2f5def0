// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// A connection with the epoch of its opening, see ``ConnectionOpener/epoch``.
struct PooledConnection: Sendable {
    let connection: PostgresConnection
    let epoch: Int
    /// A statement that fails if the connection no longer leads to the database found when the connection was opened. A
    /// pooler may switch databases between requests, so behind a pooler each request bound to an epoch includes the
    /// check. `nil` without a pooler, or if the role may not read the identity of the database.
    var check: PostgresStatement?
}

/// Opens connections to the hosts of an address, with a back-off (a pause that grows) after failures.
final class ConnectionOpener: Sendable {
    private struct State {
        /// The index of the last connected host.
        var host = 0
        /// The number of consecutive failures to connect.
        var failures = 0
        /// The last failure to connect, and the end of its back-off.
        var pause: (failure: PostgresFailure, end: ContinuousClock.Instant)?
        var epoch = 0
        /// The identity of the last connected database; `nil` if unknown.
        var identity: String?
        /// The session of the last opened connection.
        var session: DatabaseSession?
    }

    /// The back-off after the first failure, doubled after each further failure, and its maximum.
    private static let firstPause = Duration.milliseconds(100)
    private static let maxPause = Duration.seconds(2)

    /// The time after which no further host is tried, and the timeout of the first queries on a connection.
    private static let limit = Duration.seconds(10)

    /// Ends the sessions of abandoned connections.
    let closer: ConnectionCloser
    let limits: PostgresLimits
    private let secrets: AddressSecrets
    private let neededProof: String
    private let options: [(name: String, value: String)]
    private let hosts: [PostgresHost]
    private let (usesNames, schema): (Bool, String)
    private let clock: ContinuousClock
    private let state = Mutex(State())

    /// - Parameter hosts: The hosts, in the order of the attempts.
    /// - Throws: `PostgresFailure.settings`.
    init(_ settings: PostgresSettings, hosts: [PostgresHost], clock: ContinuousClock) throws(PostgresFailure) {
        options = try settings.options()
        secrets = try settings.secrets()
        neededProof = try settings.neededProof()
        limits = settings.limits
        closer = ConnectionCloser(clock)
        self.hosts = hosts
        self.clock = clock
        usesNames = settings.preparesStatements
        schema = settings.schema ?? LedgerSchema.usual
    }

    /// Opens a connection. The call blocks, and so needs its own thread.
    ///
    /// - Throws: `PostgresFailure` with the reason; during a back-off, the failure that began the back-off.
    func open() throws(PostgresFailure) -> PooledConnection {
        let (epoch, pause, failures) = state.withLock { ($0.epoch, $0.pause, $0.failures) }
        if let pause, clock.now < pause.end { throw pause.failure }
        do throws(PostgresFailure) {
            let (connection, found) = try openAny()
            let identity = found.identity
            return state.withLock { state in
                state.failures = 0
                state.pause = nil
                let isAnother = identity != nil && state.identity != nil && identity != state.identity
                if isAnother { state.epoch += 1 }
                state.identity = identity ?? state.identity
                state.session = found
                return PooledConnection(
                    connection: connection, epoch: isAnother ? state.epoch : epoch,
                    check: found.isPooled ? identity.map(DatabaseIdentity.check) : nil)
            }
        } catch {
            state.withLock { state in
                // Failures of concurrent attempts count as a single failure.
                guard state.failures == failures else { return }
                let pause = min(Self.maxPause, Self.firstPause * (1 << min(failures, 6)))
                state.failures += 1
                state.pause = (error, clock.now.advanced(by: pause))
            }
            throw error
        }
    }

    /// The end of the back-off after a failure to connect; `nil` if no back-off is in progress.
    var pauseEnd: ContinuousClock.Instant? {
        state.withLock { $0.pause?.end }.flatMap { clock.now < $0 ? $0 : nil }
    }

    var isPaused: Bool { pauseEnd != nil }

    /// Tries the hosts, beginning with the last connected host, until a host accepts a connection and answers a query.
    private func openAny() throws(PostgresFailure) -> (PostgresConnection, DatabaseSession) {
        let first = state.withLock { $0.host }
        let deadline = clock.now.advanced(by: Self.limit)
        var messages: [String] = []
        for index in (0..<hosts.count).map({ (first + $0) % hosts.count }) where clock.now < deadline {
            do throws(PostgresFailure) {
                let connection = try PostgresConnection(
                    options, to: hosts[index], usesNames: usesNames, schema: schema, clock: clock)
                let session = try DatabaseIdentity.ask(
                    connection, limits, until: clock.now.advanced(by: Self.limit), clock)
                state.withLock { $0.host = index }
                return (connection, session)
            } catch {
                messages.append(secrets.remove(from: error.message))
                if case .untrusted = error { messages.append(neededProof) }
            }
        }
        throw .unavailable(messages.joined(separator: "; "))
    }

    /// The session of the last opened connection; `nil` before the first connection.
    var session: DatabaseSession? { state.withLock { $0.session } }

    /// Ends the epoch (see ``epoch``) after a connection has ended, because the other connections of the epoch have
    /// probably ended too.
    func connectionEnded() { state.withLock { $0.epoch += 1 } }

    /// A counter that increases when a connection ends, and when a new connection leads to a different database than
    /// the previous connection. As long as the counter is unchanged, the database is the same.
    var epoch: Int { state.withLock { $0.epoch } }

    /// Whether the connection can take a further request: it works, and its epoch has not ended.
    func isUsable(_ pooled: PooledConnection) -> Bool {
        pooled.connection.isUsable && state.withLock { $0.epoch == pooled.epoch }
    }
}

// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// A connection, and the epoch in which it was opened, see ``ConnectionOpener/epoch``.
struct PooledConnection: Sendable {
    let connection: PostgresConnection
    let epoch: Int
    /// Whether the database is still the same, which each request of an epoch must check if a pooler is in between.
    var check: PostgresStatement?
}

/// Opens connections to the hosts of an address, with pauses after failures.
final class ConnectionOpener: Sendable {
    private struct State {
        /// The host that was connected last.
        var host = 0
        /// How often in succession no connection could be opened.
        var failures = 0
        /// Why the last connection could not be opened, and when to try again.
        var pause: (failure: PostgresFailure, end: ContinuousClock.Instant)?
        var epoch = 0
        /// The database of the last connection, as far as it is known.
        var identity: String?
        /// The session of the last connection.
        var session: DatabaseSession?
    }

    /// The pause after the first failure to connect, which doubles with each further one, and the longest one.
    private static let firstPause = Duration.milliseconds(100)
    private static let maxPause = Duration.seconds(2)

    /// How long all hosts together may take.
    private static let limit = Duration.seconds(10)

    /// Ends the sessions of connections that were given up.
    let closer: ConnectionCloser
    let limits: PostgresLimits
    private let secrets: AddressSecrets
    private let neededProof: String
    private let options: [(name: String, value: String)]
    private let hosts: [PostgresHost]
    private let (usesNames, schema): (Bool, String)
    private let clock: ContinuousClock
    private let state = Mutex(State())

    /// - Parameter hosts: The hosts in the order in which to try them.
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

    /// Opens a connection. Waits, so it needs a thread of its own.
    ///
    /// - Throws: `PostgresFailure`: why, or why not until the pause after a failure ends.
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
                // Several that fail at the same time are one failure.
                guard state.failures == failures else { return }
                let pause = min(Self.maxPause, Self.firstPause * (1 << min(failures, 6)))
                state.failures += 1
                state.pause = (error, clock.now.advanced(by: pause))
            }
            throw error
        }
    }

    /// Until when no connection can be opened, since one could not be opened a moment ago; `nil` if one can.
    var pauseEnd: ContinuousClock.Instant? {
        state.withLock { $0.pause?.end }.flatMap { clock.now < $0 ? $0 : nil }
    }

    var isPaused: Bool { pauseEnd != nil }

    /// Tries the hosts from the one that was connected last, until one takes a connection and says which database it
    /// is.
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

    /// The session of the last connection that was opened; `nil` before the first.
    var session: DatabaseSession? { state.withLock { $0.session } }

    /// Notes that a connection has ended. Those that were opened before have probably ended too.
    func connectionEnded() { state.withLock { $0.epoch += 1 } }

    /// How often a connection has ended, or led to another database than the one before. If it is as it was, the
    /// database is the one that it was.
    var epoch: Int { state.withLock { $0.epoch } }

    /// Whether a connection can be used for another request.
    func isUsable(_ pooled: PooledConnection) -> Bool {
        pooled.connection.isUsable && state.withLock { $0.epoch == pooled.epoch }
    }
}

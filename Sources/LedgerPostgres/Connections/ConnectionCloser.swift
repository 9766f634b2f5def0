// SPDX-License-Identifier: Apache-2.0

import Dispatch
import Synchronization

/// Ends the sessions of abandoned connections.
///
/// While a statement runs or waits for a lock, PostgreSQL does not notice that its client is gone. Without a
/// cancellation, each abandoned request would leave a session behind, until the database refused all new connections.
final class ConnectionCloser: Sendable {
    /// The maximum number of connections that are cancelled at the same time. Each cancellation occupies a thread, and
    /// if the database does not answer, libpq's call blocks that thread until the system's timeout. The maximum equals
    /// the default of ``PostgresSettings/connections``.
    private static let width = 8

    /// The timeout for all cancellations of a connection. Up to sixteen requests may be in flight on the connection,
    /// and each needs a cancellation of its own. A cancellation usually takes a millisecond, but far longer on a loaded
    /// machine.
    static let limit = Duration.seconds(10)

    /// The maximum time for which an abandoned connection still counts as open while its session is being ended. If the
    /// primary has vanished, its sessions cannot be ended. With a longer time, servers would only connect to the new
    /// primary later.
    static let placeLimit = Duration.seconds(1)

    private let clock: ContinuousClock
    private let count = Mutex(0)

    init(_ clock: ContinuousClock) { self.clock = clock }

    /// Cancels the work of an abandoned connection, and then closes the connection. The connection stays open for the
    /// cancellation, because a pooler finds the session to cancel by the client's connection. If too many connections
    /// are being cancelled already, the connection is closed without a cancellation.
    ///
    /// - Parameter done: Called once the connection is closed.
    func end(_ connection: PostgresConnection, _ done: @escaping @Sendable () -> Void) {
        let mayCancel = count.withLock { count in
            guard count < Self.width else { return false }
            count += 1
            return true
        }
        guard mayCancel else {
            connection.close()
            return done()
        }
        DispatchQueue(label: "LedgerPostgres.closer").async { [clock, self] in
            connection.cancel(until: clock.now.advanced(by: Self.limit), clock)
            connection.close()
            count.withLock { $0 -= 1 }
            done()
        }
    }
}

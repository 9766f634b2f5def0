// SPDX-License-Identifier: Apache-2.0

import Dispatch
import Synchronization

/// Ends the sessions of abandoned connections.
///
/// While a statement runs or waits for a lock, PostgreSQL does not notice that its client is gone. Each abandoned
/// request would leave a waiting session, until the database refused all new connections.
final class ConnectionCloser: Sendable {
    /// The maximum number of concurrent cancellations, each on its own thread. It equals the default number of
    /// connections of a server. If the database does not accept cancellations, libpq's call blocks until the system's
    /// timeout.
    private static let width = 8

    /// The timeout for all cancellations of a connection. Up to sixteen requests were sent on the connection, and each
    /// needs a cancellation. A cancellation usually takes a millisecond, but far longer on a loaded machine.
    static let limit = Duration.seconds(10)

    /// The time during which an abandoned connection still counts as open. With a longer time, servers would wait too
    /// long for a vanished primary.
    static let placeLimit = Duration.seconds(1)

    private let clock: ContinuousClock
    private let count = Mutex(0)

    init(_ clock: ContinuousClock) { self.clock = clock }

    /// Cancels the work of an abandoned connection, and then closes the connection. The connection stays open for the
    /// cancellation, because a pooler finds the session by the connection. If too many connections are being cancelled,
    /// the connection is closed at once.
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

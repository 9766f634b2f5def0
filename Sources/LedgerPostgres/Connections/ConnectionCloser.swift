// SPDX-License-Identifier: Apache-2.0

import Dispatch
import Synchronization

/// Ends the sessions of connections that were given up.
///
/// PostgreSQL does not notice that a client has gone while a statement runs or waits for a lock. Each request that is
/// given up would leave a session waiting, until the database takes no more connections from anybody.
final class ConnectionCloser: Sendable {
    /// How many are cancelled at once, each in a thread of its own: as many as a server has connections. If the
    /// database does not take cancellations, libpq's call lasts until the system gives up.
    private static let width = 8

    /// How long the cancellations of a connection may take: up to sixteen requests were sent on it, and each needs one.
    /// A loaded machine needs much more than a cancellation's millisecond.
    static let limit = Duration.seconds(10)

    /// How long a connection counts as open meanwhile. Longer, and servers would wait for a primary that has vanished.
    static let placeLimit = Duration.seconds(1)

    private let clock: ContinuousClock
    private let count = Mutex(0)

    init(_ clock: ContinuousClock) { self.clock = clock }

    /// Cancels the work of a connection that is not used again, and closes it then: a pooler knows a session by its
    /// connection. If too many are being cancelled, it is only closed.
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

// SPDX-License-Identifier: Apache-2.0

/// How long requests may take.
///
/// The database ends a statement before the server gives its request up: then the connection stays, and no session
/// waits behind a lock for somebody who has gone.
struct PostgresLimits: Sendable {
    /// For a request that names no other limit: much longer than any takes, and shorter than a client waits.
    var request = Duration.seconds(10)
    /// For a statement, also if a request names no limit.
    var statement = Duration.seconds(9)
    /// For the wait for a lock of another transaction. Those of servers last as long as a commit.
    var lock = Duration.seconds(3)
    /// For a statement with which several works or loads are read: one that takes long must not delay the others.
    var sharedRead = Duration.seconds(3)
    /// For the wait for a lock in a commit of several works. A server that commits holds one for milliseconds, and for
    /// half a second only if its disk hesitates.
    var sharedLock = Duration.milliseconds(500)
    /// For a reader's wait for the server that numbers events, which holds the counter for some milliseconds. After it
    /// the events that have numbers are answered.
    var counter = Duration.seconds(1)
    /// How long after its beginning a group that timed out is still tried again, each of its works or loads alone.
    var group = Duration.seconds(5)
    /// For a statement that reads for a work or load alone, after a time-out with others. Together with ``group`` it is
    /// as long as a request.
    var readAlone = Duration.seconds(5)

    /// The limits of a server.
    init() {}

    /// - Parameter request: For a request, and all others accordingly: nobody else waits for the same database.
    init(request: Duration) {
        let statement = request * 9 / 10
        self.request = request
        self.statement = statement
        lock = statement
        sharedRead = statement
        sharedLock = statement
        group = request
        readAlone = statement
        counter = statement
    }
}

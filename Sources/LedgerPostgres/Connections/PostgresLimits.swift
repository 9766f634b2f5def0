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
        (self.request, self.statement, lock) = (request, statement, statement)
        (sharedRead, sharedLock, group, readAlone) = (statement, statement, request, statement)
    }

    /// Lets the statements after it take this long each, in the same transaction.
    static func statement(_ limit: Duration) -> PostgresStatement { set("statement_timeout", limit) }

    /// Lets the statements after it wait this long for a lock, in the same transaction.
    static func lock(_ limit: Duration) -> PostgresStatement { set("lock_timeout", limit) }

    private static func set(_ name: String, _ limit: Duration) -> PostgresStatement {
        PostgresStatement("SELECT set_config('\(name)', $1, true)", [.text("\(limit.milliseconds)")])
    }

    /// Sets the limits of a session. What the operator has set to less stays as it is.
    ///
    /// Only if the process at the other end is the one that libpq knows. A pooler would give the session, with its
    /// limits, to others.
    func session(of process: Int64) -> PostgresStatement {
        .once(
            """
            SELECT set_config(name, milliseconds::text, false)
            FROM (VALUES ('statement_timeout', $2::bigint), ('lock_timeout', $3::bigint),
                ('idle_in_transaction_session_timeout', $2::bigint)) AS ours (name, milliseconds)
            JOIN pg_settings USING (name)
            WHERE pg_backend_pid() = $1::bigint AND (setting::bigint = 0 OR setting::bigint > milliseconds)
            """, [.integer(process), .integer(statement.milliseconds), .integer(lock.milliseconds)])
    }
}

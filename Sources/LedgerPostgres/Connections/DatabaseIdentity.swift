// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// What tells a database from all others, also from the standby that takes over: the cluster, its timeline, which is a
/// new one after each failover, and the database.
///
/// A primary that vanishes without a word leaves connections that seem to live. A connection that is opened meanwhile
/// leads to the new primary, which may lack the last commits.
enum DatabaseIdentity {
    /// On a standby there is no timeline to ask for, and nothing is written there.
    static let text = """
        (SELECT system_identifier || ' ' || oid || ' '
            || CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END
        FROM pg_database, pg_control_system() WHERE datname = current_database())
        """

    static let statement = PostgresStatement.once("SELECT \(text), pg_backend_pid()::bigint")

    /// Fails unless the database is still that one: no identity is a number (22P02).
    static func check(_ identity: String) -> PostgresStatement {
        PostgresStatement("SELECT CASE WHEN \(text) = $1 THEN 0 ELSE \(text)::bigint END", [.text(identity)])
    }

    /// Reads the answer to ``statement``: the identity, and the process that serves the connection. `nil` if the
    /// database does not say.
    static func read(_ rows: PostgresRows?) -> (identity: String, process: Int64)? {
        // An answer of another form says no more than none.
        try? rows?.map { (try $0.next(String.self), try $0.next(Int64.self)) }.first
    }

    /// Asks on a connection that nothing else uses yet, and sets how it plans and the limits of its session. Waits.
    ///
    /// - Throws: `PostgresFailure.unavailable` if the database does not answer.
    static func ask(
        _ connection: PostgresConnection, _ limits: PostgresLimits, until deadline: ContinuousClock.Instant,
        _ clock: ContinuousClock
    ) throws(PostgresFailure) -> DatabaseSession {
        connection.begin([
            .snapshot([.once("SELECT pg_backend_pid()::bigint")]), .snapshot([statement]),
            .snapshot([limits.session(of: connection.process)]),
            .snapshot([SessionPlans.statement(for: connection.process)]),
        ])
        while true {
            let left = clock.now.duration(to: deadline).milliseconds
            guard left > 0 else {
                _ = connection.end(.late)
                connection.cancel(until: clock.now.advanced(by: ConnectionCloser.placeLimit), clock)
                throw .unavailable("The database did not answer in time")
            }
            guard let results = connection.proceed(waiting: Int32(clamping: left)) else { continue }
            for case .failure(let failure) in results where failure.endsConnection {
                throw .unavailable(failure.message)
            }
            // A database that does not say who answers is treated as one behind a pooler.
            let answers = results.map { try? $0.get().first }
            let process = try? answers[0]?.map { try $0.next(Int64.self) }.first
            // A pooler invents the number of a process.
            return DatabaseSession(
                identity: read(answers[1])?.identity, isPooled: process != connection.process,
                encryption: connection.encryption)
        }
    }
}

extension PostgresLimits {
    /// Sets the limits of a session. What the operator has set to less stays as it is.
    ///
    /// Only if the process at the other end is the one that libpq knows. A pooler would give the session, with its
    /// limits, to others.
    fileprivate func session(of process: Int64) -> PostgresStatement {
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

/// What is known of the session of a connection.
struct DatabaseSession: Sendable {
    /// Which database it is, see ``DatabaseIdentity``; `nil` if the database does not permit it to be known.
    var identity: String?
    /// Whether the connection leads to a pooler, which may pass each transaction to another session, also of another
    /// database.
    var isPooled = false
    /// The version of TLS; `nil` without TLS.
    var encryption: String?
}

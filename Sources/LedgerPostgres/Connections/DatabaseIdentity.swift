// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// The identity of a database: the number of its PostgreSQL cluster, the database's number in the cluster, and the
/// cluster's timeline. A failover begins a new timeline, so a promoted standby has a different identity.
///
/// If a primary vanishes without closing its connections, the connections still look alive. Meanwhile a new connection
/// leads to the new primary, which may lack the last commits. The different identity reveals the failover.
enum DatabaseIdentity {
    /// On a standby, PostgreSQL refuses `pg_current_wal_lsn()`. The timeline of a standby is left empty, because a
    /// standby takes no writes anyway.
    static let text = """
        (SELECT system_identifier || ' ' || oid || ' '
            || CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END
        FROM pg_database, pg_control_system() WHERE datname = current_database())
        """

    static let statement = PostgresStatement.once("SELECT \(text), pg_backend_pid()::bigint")

    /// A statement that fails unless the database still has the identity. If the identity has changed, the statement
    /// casts the new identity to a number, which always fails with the SQLSTATE 22P02.
    static func check(_ identity: String) -> PostgresStatement {
        PostgresStatement("SELECT CASE WHEN \(text) = $1 THEN 0 ELSE \(text)::bigint END", [.text(identity)])
    }

    /// Reads the result of ``statement``: the identity, and the number of the server process. `nil` if the role may not
    /// read the identity.
    static func read(_ rows: PostgresRows?) -> (identity: String, process: Int64)? {
        // A malformed result counts as an unknown identity.
        try? rows?.map { (try $0.next(String.self), try $0.next(Int64.self)) }.first
    }

    /// Reads the identity on a new connection, and sets the planner options and timeouts of its session. The call
    /// blocks.
    ///
    /// - Throws: `PostgresFailure.unavailable` if the database does not answer in time, or ends the connection.
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
            // If the query for the process number was refused, a pooler is assumed.
            let answers = results.map { try? $0.get().first }
            let process = try? answers[0]?.map { try $0.next(Int64.self) }.first
            // A pooler gives libpq an invented process number, which differs from the number that the query returns.
            return DatabaseSession(
                identity: read(answers[1])?.identity, isPooled: process != connection.process,
                encryption: connection.encryption)
        }
    }
}

extension PostgresLimits {
    /// Sets the timeouts of a session, except timeouts that the operator has set to shorter values.
    ///
    /// The statement takes effect only in the server process whose number libpq received. Behind a pooler it does
    /// nothing, because a pooler gives libpq an invented number. If the statement took effect there, the pooler would
    /// later hand the session, timeouts included, to other clients.
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

/// The facts found out about a session when its connection was opened.
struct DatabaseSession: Sendable {
    /// The identity of the database, see ``DatabaseIdentity``; `nil` if the role may not read the identity.
    var identity: String?
    /// Whether the connection leads to a pooler. A pooler may pass each transaction to a different session, even of a
    /// different database.
    var isPooled = false
    /// The TLS version; `nil` without TLS.
    var encryption: String?
}

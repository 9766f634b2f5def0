// SPDX-License-Identifier: Apache-2.0

/// What tells a database from all others, also from the standby that takes over: the cluster, its timeline, which is a
/// new one after each failover, and the database.
///
/// A primary that vanishes without a word leaves connections that seem to live. A connection that is opened meanwhile
/// leads to the new primary, which may lack the last commits.
enum DatabaseIdentity {
    /// On a standby there is no timeline to ask for, and nothing is written there.
    static let statement = PostgresStatement.once(
        """
        SELECT (SELECT system_identifier FROM pg_control_system()) || ' ' || oid || ' '
            || CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END
        FROM pg_database WHERE datname = current_database()
        """)

    /// Reads the answer; `nil` if the database does not say.
    static func read(_ rows: PostgresRows?) -> String? {
        try? rows?.map { try $0.next(String.self) }.first
    }

    /// Asks on a connection that nothing else uses yet. Waits.
    ///
    /// - Returns: `nil` if the database does not permit it to be known.
    /// - Throws: `PostgresFailure.unavailable` if it does not answer.
    static func ask(
        _ connection: PostgresConnection, until deadline: ContinuousClock.Instant, _ clock: ContinuousClock
    ) throws(PostgresFailure) -> String? {
        connection.begin([.snapshot([statement])])
        while true {
            let left = clock.now.duration(to: deadline).milliseconds
            guard left > 0 else { throw .unavailable("The database did not answer in time") }
            guard let results = connection.proceed(waiting: Int32(clamping: left)) else { continue }
            switch results.first {
            case .success(let rows): return read(rows.first)
            case .failure(let failure) where failure.endsConnection: throw .unavailable(failure.message)
            case .failure, nil: return nil
            }
        }
    }
}

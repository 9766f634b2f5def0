// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

// Names those for whom a database waits.

extension PostgresSettings {
    /// For whom the sessions of this role wait: processes that hold locks, or standbys. `nil` if no session waits, or
    /// the database does not say.
    public func blockers(clock: ContinuousClock) async -> String? {
        let statement = PostgresStatement.once(
            """
            SELECT string_agg(
                DISTINCT coalesce(holders, 'a standby of ' || current_setting('synchronous_standby_names')), '; ')
            FROM pg_stat_activity AS waiting LEFT JOIN LATERAL (
                SELECT string_agg(concat_ws(' ', 'process', pid, usename, application_name, state), '; ') AS holders
                FROM pg_stat_activity WHERE pid = ANY(pg_blocking_pids(waiting.pid))) AS blocking ON true
            WHERE datname = current_database() AND usename = current_user
                AND (wait_event = 'SyncRep' OR wait_event_type = 'Lock' AND holders IS NOT NULL)
            """)
        var settings = self
        settings.connections = 1
        do {
            let pool = try ConnectionPool(settings, hosts: hosts(), clock: clock)
            defer { pool.close() }
            return try await pool.run(.snapshot([statement])).first?.map { try $0.next(String?.self) }.first ?? nil
        } catch {
            // The caller only says more about a wait that goes on anyway.
            return nil
        }
    }
}

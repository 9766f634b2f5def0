// SPDX-License-Identifier: Apache-2.0

/// Planner settings of a session.
///
/// A plan made for an empty table scans the whole table, and stays cached until statistics are gathered. In a
/// fast-growing ledger, each look-up would then take time in proportion to the table. Every statement has an index, so
/// the planner is told to use indexes even for a table that seems small.
enum SessionPlans {
    /// The statement has no effect behind a pooler: it requires the server process known to libpq. Otherwise the pooler
    /// would give the session to other clients.
    ///
    /// Without sequential scans, the planner overestimates the cost of a table to be read whole, such as `apps`.
    /// Because of the estimate PostgreSQL would compile the statement, which takes much longer than running it.
    static func statement(for process: Int64) -> PostgresStatement {
        .once(
            """
            SELECT set_config(name, 'off', false) FROM (VALUES ('enable_seqscan'), ('jit')) AS setting (name)
            WHERE pg_backend_pid() = $1::bigint
            """, [.integer(process)])
    }
}

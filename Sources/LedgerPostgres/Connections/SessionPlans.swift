// SPDX-License-Identifier: Apache-2.0

/// Planner settings of a session.
///
/// A plan made for an empty table scans the whole table, and stays cached until statistics are gathered. In a
/// fast-growing ledger, each look-up would then take time in proportion to the table. Every look-up has an index, so
/// the planner is told to use indexes even for a table that seems small.
enum SessionPlans {
    /// Switches off sequential scans and `jit` in a session. The statement does nothing unless it runs in the server
    /// process whose number (PID) libpq received when it connected. Behind a pooler it does nothing, because a pooler
    /// gives libpq an invented number. If the statement took effect there, the pooler would later hand the session,
    /// settings included, to other clients.
    ///
    /// Without sequential scans, the planner overestimates the cost of reading a whole table, such as `apps`. The high
    /// cost would make PostgreSQL compile the statement, which takes much longer than running it. Therefore `jit` is
    /// off too.
    static func statement(for process: Int64) -> PostgresStatement {
        .once(
            """
            SELECT set_config(name, 'off', false) FROM (VALUES ('enable_seqscan'), ('jit')) AS setting (name)
            WHERE pg_backend_pid() = $1::bigint
            """, [.integer(process)])
    }
}

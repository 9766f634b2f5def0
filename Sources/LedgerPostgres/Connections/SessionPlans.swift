// SPDX-License-Identifier: Apache-2.0

/// How the database plans the statements of a session.
///
/// A plan that was made while a table was empty reads all of the table, and is kept until statistics are gathered: in a
/// ledger that grows fast, each look-up then costs as much as there is. All statements have indexes, so the planner is
/// told to use them, also if a table seems to be small.
enum SessionPlans {
    /// Only if the process at the other end is the one that libpq knows: a pooler would give the session to others.
    ///
    /// A table that must be read whole, such as `apps`, seems to be so expensive then that PostgreSQL would compile the
    /// statement, which takes much longer than to run it.
    static func statement(for process: Int64) -> PostgresStatement {
        .once(
            """
            SELECT set_config(name, 'off', false) FROM (VALUES ('enable_seqscan'), ('jit')) AS setting (name)
            WHERE pg_backend_pid() = $1::bigint
            """, [.integer(process)])
    }
}

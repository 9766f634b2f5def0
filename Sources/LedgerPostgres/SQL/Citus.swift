// SPDX-License-Identifier: Apache-2.0

/// SQL about Citus, an extension of PostgreSQL that distributes tables over several nodes, see ``Distribution``.
enum Citus {
    /// Runs a transaction's commands on the nodes in sequence, because some commands create objects that later commands
    /// need. A database without Citus ignores the setting.
    static let sequential = "SET LOCAL citus.multi_shard_modify_mode TO 'sequential'"

    /// The `FROM` and `WHERE` of a query about the tables of the ledger, for a database that has Citus. The query
    /// selects a row if the tables are distributed, and no row otherwise. Asking about `chains` suffices, because
    /// either all tables are distributed or none.
    static let distributed = "FROM pg_dist_partition WHERE logicalrelid = to_regclass('quittance.chains')"

    /// A statement that runs the given PL/pgSQL statements if the tables are distributed. Otherwise, and in a database
    /// without Citus, it does nothing.
    static func ifDistributed(_ statements: String) -> String {
        """
        DO $$ BEGIN
            IF EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus') THEN
                IF EXISTS (SELECT 1 \(distributed)) THEN
                    \(statements)
                END IF;
            END IF;
        END $$
        """
    }
}

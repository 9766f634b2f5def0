// SPDX-License-Identifier: Apache-2.0

/// SQL for a database with or without Citus, see ``Distribution``.
enum Citus {
    /// Runs a transaction's commands on the nodes in sequence, because some commands create objects for later commands.
    /// A database without Citus ignores the setting.
    static let sequential = "SET LOCAL citus.multi_shard_modify_mode TO 'sequential'"

    /// The end of a query in a database with Citus. It selects a row if the tables are distributed, and no row
    /// otherwise. Asking about `chains` suffices, because either all tables are distributed or none.
    static let distributed = "FROM pg_dist_partition WHERE logicalrelid = to_regclass('quittance.chains')"

    /// A statement that runs other PL/pgSQL statements if the tables are distributed.
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

// SPDX-License-Identifier: Apache-2.0

/// SQL for a database that may have Citus, see ``Distribution``.
enum Citus {
    /// Sends the commands of a transaction to each node one after another, since some make objects that the next ones
    /// need. A database without Citus ignores it.
    static let sequential = "SET LOCAL citus.multi_shard_modify_mode TO 'sequential'"

    /// The end of a query, for a database with Citus, that has a row if the tables are distributed: all are, or none.
    static let distributed = "FROM pg_dist_partition WHERE logicalrelid = to_regclass('quittance.chains')"

    /// A statement that runs others, in PL/pgSQL, if the tables are distributed.
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

// SPDX-License-Identifier: Apache-2.0

/// The error by which the database says that another server was faster: a version or a row is not as it was loaded.
///
/// A statement calls the function `conflict` with what it has found. The function only raises the error.
///
/// The argument must be a column or an aggregate. PostgreSQL would evaluate the function of a constant or a parameter
/// when it plans the statement, and then always fail. The function is immutable, since Citus takes no other functions
/// in `CASE` and in `ON CONFLICT DO UPDATE SET`.
enum Conflict {
    /// The SQLSTATE. Neither the SQL standard nor PostgreSQL has the class `QT`.
    static let state = "QT001"

    /// Makes the function. A database may be set up so that new functions are their owner's alone.
    static let function = [
        """
        CREATE FUNCTION quittance.conflict(bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
            \(raise)
        END $$
        """,
        "GRANT EXECUTE ON FUNCTION quittance.conflict(bigint) TO PUBLIC",
    ]

    /// Makes the function known to all nodes of Citus, also those that are added later.
    static let distribution = "create_distributed_function('quittance.conflict(bigint)')"

    /// The statement of PL/pgSQL that raises the error.
    private static let raise = """
        RAISE EXCEPTION 'another server of the ledger was faster; this one decides again, and nothing is to be done'
            USING ERRCODE = '\(state)';
        """

    /// The end of a statement that fails if a part of it has met no row.
    ///
    /// - Parameter rows: The name of that part in `WITH`.
    static func unlessAny(_ rows: String) -> String {
        "SELECT CASE count(*) WHEN 0 THEN quittance.conflict(count(*)) END FROM \(rows)"
    }

    /// A statement that fails if another server was faster, for tables that may not have the function yet.
    ///
    /// - Parameters:
    ///   - attempt: A statement of PL/pgSQL that may come first.
    ///   - condition: When it fails, in PL/pgSQL.
    static func raised(after attempt: String = "", if condition: String) -> String {
        """
        DO $$ BEGIN
            \(attempt)
            IF \(condition) THEN
                \(raise)
            END IF;
        END $$
        """
    }
}

// SPDX-License-Identifier: Apache-2.0

/// The error that the database raises if a concurrent commit has changed a row since the row was loaded.
///
/// A statement that finds a conflict calls the function `conflict`. The argument is a column or an aggregate of the
/// rows found by the statement. The function always raises the error.
///
/// The argument must depend on the rows. PostgreSQL would evaluate a call with a constant or a parameter while
/// planning, and the statement would always fail. The function is immutable, because Citus accepts only immutable
/// functions in `CASE` and in `ON CONFLICT DO UPDATE SET`.
enum Conflict {
    /// The SQLSTATE. Neither the SQL standard nor PostgreSQL uses the class `QT`.
    static let state = "QT001"

    /// Creates the function, and grants everyone the right to execute it. Some databases give this right to a
    /// function's owner alone by default.
    static let function = [
        """
        CREATE FUNCTION quittance.conflict(bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
            \(raise)
        END $$
        """,
        "GRANT EXECUTE ON FUNCTION quittance.conflict(bigint) TO PUBLIC",
    ]

    /// Distributes the function to all nodes of Citus, including nodes added later.
    static let distribution = "create_distributed_function('quittance.conflict(bigint)')"

    /// The PL/pgSQL statement that raises the error.
    private static let raise = """
        RAISE EXCEPTION 'another server of the ledger was faster; this one decides again, and nothing is to be done'
            USING ERRCODE = '\(state)';
        """

    /// The final `SELECT` of a statement. It raises the error if the given common table expression returned no row.
    ///
    /// - Parameter rows: The name of the expression in `WITH`.
    static func unlessAny(_ rows: String) -> String {
        "SELECT CASE count(*) WHEN 0 THEN quittance.conflict(count(*)) END FROM \(rows)"
    }

    /// A statement that raises the error itself, for use while `quittance.conflict` may not exist yet.
    ///
    /// - Parameters:
    ///   - attempt: A PL/pgSQL statement to run first.
    ///   - condition: The PL/pgSQL condition under which to raise the error.
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

// SPDX-License-Identifier: Apache-2.0

/// The error raised by the database if a concurrent server was faster. A version or a row then differs from the loaded
/// state.
///
/// A statement calls the function `conflict` with a value from its rows. The function always raises the error.
///
/// The argument must be a column or an aggregate. For a constant or a parameter, PostgreSQL would evaluate the function
/// while planning, and every statement would fail. The function is immutable, because Citus accepts only immutable
/// functions in `CASE` and in `ON CONFLICT DO UPDATE SET`.
enum Conflict {
    /// The SQLSTATE. Neither the SQL standard nor PostgreSQL uses the class `QT`.
    static let state = "QT001"

    /// Creates the function. Some databases reserve new functions for their owner, so the right to execute is granted.
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

    /// The end of a statement that fails if its named part found no row.
    ///
    /// - Parameter rows: The name of the part in `WITH`.
    static func unlessAny(_ rows: String) -> String {
        "SELECT CASE count(*) WHEN 0 THEN quittance.conflict(count(*)) END FROM \(rows)"
    }

    /// A statement that fails if a concurrent server was faster, for tables that may lack the function.
    ///
    /// - Parameters:
    ///   - attempt: A PL/pgSQL statement to run first.
    ///   - condition: The PL/pgSQL condition of the failure.
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

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The tables of documents, one for the documents signed in each calendar quarter, see ``Schema``.
///
/// The documents of a quarter without a table go to `documents_rest`. Once `documents_rest` contains such a document,
/// PostgreSQL refuses to create the quarter's table, to which the document would then belong.
enum Quarters {
    /// A quarter without a table.
    struct Missing: Sendable {
        /// The name of the missing table.
        var table: String
        /// The start of the quarter, and its end, which is the start of the next quarter.
        var (first, last): (Timestamp, Timestamp)
    }

    /// The query for the bounds of all existing tables except `documents_rest`. A bound is in milliseconds since 1970,
    /// and NULL if the table has no such bound.
    private static let parts = """
        SELECT substring(bounds FROM 'FROM \\(''?(-?[0-9]+)')::bigint AS first,
               substring(bounds FROM 'TO \\(''?(-?[0-9]+)')::bigint AS last
        FROM (SELECT pg_get_expr(relpartbound, oid) AS bounds
              FROM pg_class JOIN pg_inherits ON inhrelid = oid
              WHERE inhparent = 'quittance.documents'::regclass) AS part
        WHERE bounds <> 'DEFAULT'
        """

    /// The query for the quarters without a table, from the quarter in which the ledger was created to the quarter
    /// after the present. The query goes back two years at most. If a clock is far ahead, ``add(at:)`` therefore
    /// creates a few tables, and not one for each of hundreds of quarters.
    ///
    /// - Parameter now: The time; `nil` for the database's clock.
    private static func missing(at now: Timestamp?) -> String {
        let instant = now.map { "to_timestamp(\($0.milliseconds) / 1000.0)" } ?? "now()"
        return """
            WITH parts AS (\(parts)),
            today AS (SELECT date_trunc('quarter', \(instant) AT TIME ZONE 'UTC') AS quarter),
            start AS (
                SELECT least(quarter, greatest(quarter - interval '2 years',
                    date_trunc('quarter', to_timestamp(min(last) / 1000.0) AT TIME ZONE 'UTC'))) AS quarter
                FROM today LEFT JOIN parts ON last > 0 GROUP BY today.quarter),
            quarters AS (
                SELECT 'documents_' || to_char(begins, 'YYYY"q"Q') AS name,
                       (extract(epoch FROM begins) * 1000)::bigint AS first,
                       (extract(epoch FROM begins + interval '3 months') * 1000)::bigint AS last,
                       begins < today.quarter AS is_past
                FROM start, today, generate_series(
                    start.quarter, today.quarter + interval '3 months', interval '3 months') AS begins)
            SELECT name, first, last, is_past FROM quarters
            WHERE to_regclass('quittance.' || name) IS NULL AND NOT EXISTS (
                SELECT 1 FROM parts WHERE coalesce(parts.first < quarters.last, true)
                    AND coalesce(parts.last > quarters.first, true))
            ORDER BY first
            """
    }

    /// Adds the missing tables, except for quarters whose documents are already in `documents_rest`. If
    /// `keeps_documents` is false, past quarters are skipped too, because the operator may have detached their tables.
    ///
    /// - Parameter now: The time; `nil` for the database's clock.
    static func add(at now: Timestamp? = nil) -> PostgresStatement {
        .once(
            """
            DO $$ DECLARE
                gap record;
            BEGIN
                FOR gap IN \(missing(at: now)) LOOP
                    CONTINUE WHEN gap.is_past AND NOT (SELECT keeps_documents FROM quittance.retention);
                    CONTINUE WHEN EXISTS (SELECT 1 FROM quittance.documents
                        WHERE signed_date >= gap.first AND signed_date < gap.last);
                    EXECUTE format(
                        'CREATE TABLE quittance.%I PARTITION OF quittance.documents FOR VALUES FROM (%s) TO (%s)',
                        gap.name, gap.first, gap.last);
                END LOOP;
            END $$
            """)
    }

    /// The statements that search for missing tables. ``missing(_:)`` reads their results.
    static func search(at now: Timestamp) -> [PostgresStatement] {
        [.once("SELECT keeps_documents FROM quittance.retention"), .once(missing(at: now))]
    }

    /// The quarters to report as missing a table, from the results of ``search(at:)``. As in ``add(at:)``, past
    /// quarters do not count if `keeps_documents` is false.
    static func missing(_ answers: [PostgresRows]) throws -> [Missing] {
        let keepsDocuments = try answers[0].map { try $0.next(Bool.self) }.first ?? true
        return try answers[1].map { row in
            let quarter = Missing(table: try row.next(), first: try row.next(), last: try row.next())
            return try row.next(Bool.self) && !keepsDocuments ? nil : quarter
        }.compactMap(\.self)
    }
}

extension Quarters.Missing {
    /// The message for the operator, with the statements that add the table and move the documents into it. While these
    /// statements run, other documents wait to be stored.
    var concern: String {
        let rows =
            "quittance.documents_rest WHERE signed_date >= \(first.milliseconds) "
            + "AND signed_date < \(last.milliseconds)"
        return """
            The documents signed from \(first.iso8601) on have no table \(table), and stay in documents_rest. As the \
            owner of the tables run: BEGIN; SET LOCAL lock_timeout = '2s'; LOCK TABLE quittance.documents_rest; \
            CREATE TEMP TABLE moved ON COMMIT DROP AS SELECT * FROM \(rows); DELETE FROM \(rows); \
            CREATE TABLE quittance.\(table) PARTITION OF quittance.documents \
            FOR VALUES FROM (\(first.milliseconds)) TO (\(last.milliseconds)); \
            INSERT INTO quittance.documents SELECT * FROM moved; COMMIT;
            """
    }
}

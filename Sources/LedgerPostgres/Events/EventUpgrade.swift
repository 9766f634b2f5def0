// SPDX-License-Identifier: Apache-2.0

/// Upgrades the tables of events. The content of an event was in several columns, and is now a JSON text in the column
/// `body`, see `EventContent`.
///
/// No server should run during the upgrade, because servers of the previous version use the old columns. A change of a
/// column's type rewrites each table in place, so the table keeps its name, indexes, storage parameters and grants.
enum EventUpgrade {
    /// The tables to change.
    static let tables = ["outbox", "events"]

    static let statements =
        [
            // Until now, `original_transaction_id` showed whether a copied event has a chain. This column is dropped
            // below, so `source` must show it.
            """
            UPDATE quittance.events SET source = \(EventSource.copiedNoChain.rawValue)
            WHERE source = \(EventSource.copiedChain.rawValue) AND original_transaction_id IS NULL
            """,
            view(PeopleViews.feedWithoutContent),
        ] + tables.flatMap(rewrite) + [view(PeopleViews.feed)]

    private static let oldColumns =
        ["effective_at", "original_transaction_id", "transaction_id", "product_id"]
        + ["before", "after"].flatMap { state in
            ["status", "product_id", "until", "will_renew", "commitment_will_renew"].map { "\(state)_\($0)" }
        }

    private static func rewrite(_ table: String) -> [String] {
        let drops = oldColumns.map { "DROP \($0)" }.joined(separator: ", ")
        return [
            "ALTER TABLE quittance.\(table) ALTER detail TYPE bytea USING convert_to(\(body), 'UTF8')",
            "ALTER TABLE quittance.\(table) RENAME detail TO body",
            "ALTER TABLE quittance.\(table) ALTER body SET NOT NULL, \(drops)",
        ]
    }

    /// Replaces the view `feed` if it exists and reads the ledger's events. On Citus the view does not exist, and an
    /// operator may have made a view with this name, which stays. A replaced view keeps its columns and grants.
    private static func view(_ definition: String) -> String {
        """
        DO $$ BEGIN
            IF EXISTS (
                SELECT 1 FROM pg_rewrite JOIN pg_depend ON objid = pg_rewrite.oid
                WHERE classid = 'pg_rewrite'::regclass AND ev_class = to_regclass('quittance.feed')
                    AND refobjid = 'quittance.events'::regclass)
            THEN
                \(definition);
            END IF;
        END $$
        """
    }

    // MARK: - The body of old columns

    /// The SQL that makes, from the old columns, the JSON text that `EventContent.body` writes.
    private static let body =
        #"'{"effectiveAt":' || effective_at"#
        + [("transactionId", "transaction_id"), ("productId", "product_id"), ("detail", "detail")]
        .map { #" || coalesce(',"\#($0.0)":' || \#(text($0.1)), '')"# }.joined()
        + ["before", "after"]
        .map { #" || ',"\#($0)":' || CASE WHEN \#($0)_status IS NULL THEN 'null' ELSE \#(state($0)) END"# }.joined()
        + " || '}'"

    private static func state(_ name: String) -> String {
        #"'{"status":' || \#(text("\(name)_status"))"#
            + #" || ',"productId":' || coalesce(\#(text("\(name)_product_id")), 'null')"#
            + #" || ',"until":' || coalesce(\#(name)_until::text, 'null')"#
            + #" || ',"willRenew":' || coalesce(\#(truth("\(name)_will_renew")), 'null')"#
            + #" || coalesce(',"commitmentWillRenew":' || \#(truth("\(name)_commitment_will_renew")), '') || '}'"#
    }

    private static func truth(_ column: String) -> String {
        "CASE WHEN \(column) <> 0 THEN 'true' WHEN \(column) = 0 THEN 'false' END"
    }

    /// The SQL that makes a JSON string from a column of text. The column contains U+0001 `0` in place of NUL, and
    /// U+0001 `1` in place of U+0001, see `StoredText`. PostgreSQL writes U+0001 in JSON as `\u0001`. The pattern
    /// requires an even number of backslashes before `\u0001`, so that the backslash of `\u0001` is not itself escaped.
    /// Halves of surrogate pairs are not converted back from the form of `LoneSurrogate`, because no id, product or
    /// notification type contains such a half.
    private static func text(_ column: String) -> String {
        #"regexp_replace(to_json(\#(column))::text, '(?<!\\)((?:\\\\)*)\\u0001([01])', '\1\\u000\2', 'g')"#
    }
}

// SPDX-License-Identifier: Apache-2.0

/// Brings the tables of events up to date: what an event says was in columns, and is a body now, see `LedgerEvent`.
///
/// No server may run meanwhile: those of the version before name the columns. Each table is rewritten once, by changing
/// the type of one of the columns; so it keeps its name, its indexes, its parameters and who may read it.
enum EventUpgrade {
    /// The tables that are changed.
    static let tables = ["outbox", "events"]

    static let statements =
        [
            // Whether a copied event is about a chain was said by a column that goes.
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

    /// Changes what the view `feed` reads, if it is there and ours: Citus has none, and an operator may have another
    /// one of this name. Its columns stay, and so does who may read it.
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

    /// The text that `EventContent.body` writes.
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

    /// A text as a JSON string. In a column NUL was U+0001 and `0`, and U+0001 was U+0001 and `1`, see `StoredText`.
    /// PostgreSQL writes U+0001 as `\u0001`, which no backslash comes before that is not one of a pair. Halves of
    /// surrogate pairs stay in the form of `LoneSurrogate`: no id, product or notification type has any.
    private static func text(_ column: String) -> String {
        #"regexp_replace(to_json(\#(column))::text, '(?<!\\)((?:\\\\)*)\\u0001([01])', '\1\\u000\2', 'g')"#
    }
}

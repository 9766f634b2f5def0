// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// The views for people with `psql`, whose names and columns stay, while tables change from version to version.
/// `docs/postgresql.md` says what their columns are.
///
/// `chains.state` is binary. Therefore a chain's row has what was published about the chain as columns too, which costs
/// some 60 bytes of the log for each renewal, a fiftieth of it, and no index: updates that leave `next_change` alone
/// stay in their page.
enum PeopleViews {
    /// The columns of a chain that only the views read. Truth values are 0 and 1. `other_owners` has the numbers of the
    /// owners after the first, with a blank between them; few chains have any.
    static let chainColumns: [(name: String, type: ColumnType)] = [
        ("is_subscription", .integer), ("status", .text), ("product_id", .text), ("access_until", .integer),
        ("will_renew", .integer), ("gives_access", .integer), ("other_owners", .text),
    ]

    /// All views, each before those that it reads.
    private static let names = ["periods", "purchases", "owners", "feed", "holders"]

    /// Citus cannot plan them.
    static let drop = names.map { "DROP VIEW IF EXISTS quittance.\($0)" }

    /// The columns of a transaction that only the views read.
    static let transactionColumns: [(name: String, type: ColumnType)] = [
        ("product_id", .text), ("type", .text), ("purchase_date", .integer), ("expires_date", .integer),
        ("quantity", .integer), ("offer_type", .integer), ("is_upgraded", .integer), ("revocation_date", .integer),
        ("price", .integer), ("currency", .text),
    ]

    /// The definitions of columns in a table.
    static func columns(of columns: [(name: String, type: ColumnType)]) -> String {
        columns.map { "\($0.name) \($0.type.rawValue)" }.joined(separator: ", ")
    }

    /// The index leads from a customer's chains to their transactions. It costs some 40 bytes of the log for each new
    /// transaction.
    static let index = "CREATE INDEX transactions_by_chain ON quittance.transactions (chain)"

    static let create = [holders, purchases, owners, feed, periods]

    /// Each id of each customer with each chain that the customer ever owned.
    private static let holders = """
        CREATE VIEW quittance.holders AS
        SELECT customers.home AS id, customers.ids[1] AS customer, customers.number, holdings.scope, holdings.chain
        FROM quittance.customers JOIN quittance.holdings ON holdings.home = customers.number::text
        """

    /// A condition on the owner's id begins with the row of that id: its strict comparison makes the outer join an
    /// inner one.
    private static let firstOwner = """
        LEFT JOIN quittance.holders ON holders.number = chains.owner AND holders.chain = chains.home
            AND holders.scope = chains.scope AND holders.id = holders.customer
        """

    private static let places = """
        JOIN quittance.scopes ON scopes.id = chains.scope JOIN quittance.apps ON apps.id = scopes.app
        """

    private static let periods = """
        CREATE VIEW quittance.periods AS
        SELECT holders.id AS customer, bundle_id, environment, transactions.chain AS original_transaction_id,
               transactions.home AS transaction_id,
               \(transactionColumns.map { "transactions.\($0.name)" }.joined(separator: ", "))
        FROM quittance.transactions
        JOIN quittance.chains ON chains.home = transactions.chain AND chains.scope = transactions.scope
        \(places) \(firstOwner)
        WHERE transactions.product_id IS NOT NULL
        """

    private static let purchases = """
        CREATE VIEW quittance.purchases AS
        SELECT holders.id AS customer, bundle_id, environment, chains.home AS original_transaction_id,
               is_subscription <> 0 AS is_subscription, status, product_id, access_until,
               will_renew <> 0 AS will_renew, gives_access <> 0 AS gives_access, next_change,
               next_change IS NULL OR next_change > extract(epoch FROM now()) * 1000 AS is_current
        FROM quittance.chains \(places) \(firstOwner)
        WHERE chains.status IS NOT NULL
        """

    private static let owners = """
        CREATE VIEW quittance.owners AS
        SELECT holders.id, holders.customer, bundle_id, environment, chains.home AS original_transaction_id
        FROM quittance.holders
        JOIN quittance.chains ON chains.home = holders.chain AND chains.scope = holders.scope \(places)
        WHERE holders.number = chains.owner OR holders.number::text = ANY (string_to_array(other_owners, ' '))
        """

    /// An event's row, with what its body says.
    ///
    /// A body that is stored as it is, behind a byte 0, is no JSON, and shows nothing. PostgreSQL has no text for NUL
    /// and for halves of surrogate pairs, and refuses all of a body with one of them. Here each is U+FFFD. `OFFSET 0`
    /// keeps PostgreSQL from doing all of this again for each column.
    static let feed = feed(
        "content",
        from: #"""
            CROSS JOIN LATERAL (
                SELECT CASE WHEN substring(events.body FOR 1) = '\x00' THEN '{}' ELSE
                    regexp_replace(
                        \#(unpacked), '(?<!\\)((?:\\\\)*)\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\1\\ufffd', 'g')
                    END::json AS content
                OFFSET 0) AS body
            """#)

    /// See `StoredBody`.
    private static let unpacked = StoredBody.phrases.reduce("convert_from(events.body, 'UTF8')") { text, phrase in
        "replace(\(text), chr(\(phrase.byte)), '\(phrase.text)')"
    }

    /// The view while the column of the body is made.
    static let feedWithoutContent = feed("'{}'::json", from: "")

    /// - Parameters:
    ///   - content: What the body says, as `json`.
    ///   - from: Where that is from.
    private static func feed(_ content: String, from: String) -> String {
        func member(_ name: String, _ type: String = "text", of object: String = content) -> String {
            type == "text" ? "\(object) ->> '\(name)'" : "(\(object) ->> '\(name)')::\(type)"
        }
        let states = ["before", "after"].flatMap { name in
            let object = "(\(content) -> '\(name)')"
            return [
                "\(member("status", of: object)) AS \(name)_status",
                "\(member("productId", of: object)) AS \(name)_product_id",
                "\(member("until", "bigint", of: object)) AS \(name)_until",
                "\(member("willRenew", "boolean", of: object)) AS \(name)_will_renew",
                "\(member("commitmentWillRenew", "boolean", of: object)) AS \(name)_commitment_will_renew",
            ]
        }
        return """
            CREATE OR REPLACE VIEW quittance.feed AS
            SELECT sequence, bundle_id, environment, recorded_at, \(member("effectiveAt", "bigint")) AS effective_at,
                   kind,
                   (SELECT ids[1] FROM quittance.customers WHERE customers.number = events.customer LIMIT 1)
                       AS customer,
                   (\(EventSource.chainName)) COLLATE "default" AS original_transaction_id,
                   \(member("transactionId")) AS transaction_id, \(member("productId")) AS product_id,
                   \(member("detail")) AS detail, \(states.joined(separator: ", "))
            FROM quittance.events
            JOIN quittance.scopes ON scopes.id = events.scope JOIN quittance.apps ON apps.id = events.app \(from)
            """
    }
}

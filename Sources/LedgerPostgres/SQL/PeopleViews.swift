// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// The views for people who query the database, for example with `psql`. Their names and columns stay, even if a new
/// version of the software changes the tables. `docs/postgresql.md` describes the columns.
///
/// A row of `chains` is a subscription with all its renewals, or a product bought once. The column `state` has the
/// facts in a binary form. Therefore further columns repeat, for people, the state of the chain that followers were
/// last told of. These columns add some 60 bytes to the write-ahead log of each renewal, a fiftieth of the whole. They
/// add no index entry, because no index contains them. An update of a chain can be a heap-only update as long as it
/// keeps the indexed columns `next_change` and `published_as_of`.
enum PeopleViews {
    /// The columns of a chain for the views. Only `other_owners` is also read elsewhere: by the check and repair of the
    /// table `holdings`, which lists the chains that each customer ever owned. Boolean values are 0 and 1.
    /// `other_owners` has the numbers of all owners but the first, separated by spaces. Few chains have several owners.
    static let chainColumns: [(name: String, type: ColumnType)] = [
        ("is_subscription", .integer), ("status", .text), ("product_id", .text), ("access_until", .integer),
        ("will_renew", .integer), ("gives_access", .integer), ("other_owners", .text),
    ]

    /// All views, in the order of dropping. Each view precedes the views that it reads.
    private static let names = ["periods", "purchases", "owners", "feed", "holders"]

    /// Drops the views, because Citus cannot plan them.
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

    /// An index from chains to their transactions. With it, a query of the view `periods` by customer can find the
    /// transactions of the customer's chains. The index adds some 40 bytes to the write-ahead log of each new
    /// transaction.
    static let index = "CREATE INDEX transactions_by_chain ON quittance.transactions (chain)"

    static let create = [holders, purchases, owners, feed, periods]

    /// A row for each pair of a customer's id and a chain that the customer ever owned.
    private static let holders = """
        CREATE VIEW quittance.holders AS
        SELECT customers.home AS id, customers.ids[1] AS customer, customers.number, holdings.scope, holdings.chain
        FROM quittance.customers JOIN quittance.holdings ON holdings.home = customers.number::text
        """

    /// Joins to each chain the first id of its first owner. If a query has a condition on this id, PostgreSQL can start
    /// with the row of the id. The condition is never true for NULL, so the planner turns the outer join into an inner
    /// join, whose order it may choose.
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

    /// The view of numbered events. The members of an event's body, a JSON text, are columns of the view.
    ///
    /// A body that is no JSON is stored behind a byte 0, and shows no members. In JSON an escape may stand for NUL or
    /// for half of a surrogate pair. A PostgreSQL text can contain neither, so reading any member of such a body would
    /// fail, and the query with it. The view shows U+FFFD in place of each such escape. `OFFSET 0` keeps PostgreSQL
    /// from repeating the conversion for each column.
    private static let feed = {
        func member(_ name: String, _ type: String = "text", of object: String = "content") -> String {
            type == "text" ? "\(object) ->> '\(name)'" : "(\(object) ->> '\(name)')::\(type)"
        }
        let states = ["before", "after"].flatMap { name in
            let object = "(content -> '\(name)')"
            return [
                "\(member("status", of: object)) AS \(name)_status",
                "\(member("productId", of: object)) AS \(name)_product_id",
                "\(member("until", "bigint", of: object)) AS \(name)_until",
                "\(member("willRenew", "boolean", of: object)) AS \(name)_will_renew",
                "\(member("commitmentWillRenew", "boolean", of: object)) AS \(name)_commitment_will_renew",
            ]
        }
        return """
            CREATE VIEW quittance.feed AS
            SELECT sequence, bundle_id, environment, recorded_at, \(member("effectiveAt", "bigint")) AS effective_at,
                   kind,
                   (SELECT ids[1] FROM quittance.customers WHERE customers.number = events.customer LIMIT 1)
                       AS customer,
                   (\(EventSource.chainName)) COLLATE "default" AS original_transaction_id,
                   \(member("transactionId")) AS transaction_id, \(member("productId")) AS product_id,
                   \(member("detail")) AS detail, \(states.joined(separator: ", "))
            FROM quittance.events
            JOIN quittance.scopes ON scopes.id = events.scope JOIN quittance.apps ON apps.id = events.app \(content)
            """
    }()

    /// The join that adds the body as `content`.
    private static let content = #"""
        CROSS JOIN LATERAL (
            SELECT CASE WHEN substring(events.body FOR 1) = '\x00' THEN '{}' ELSE
                regexp_replace(
                    \#(unpacked), '(?<!\\)((?:\\\\)*)\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\1\\ufffd', 'g')
                END::json AS content
            OFFSET 0) AS body
        """#

    /// The SQL that makes the JSON text from a stored body, in which single bytes stand for frequent phrases, see
    /// `StoredBody`.
    private static let unpacked = StoredBody.phrases.reduce("convert_from(events.body, 'UTF8')") { text, phrase in
        "replace(\(text), chr(\(phrase.byte)), '\(phrase.text)')"
    }
}

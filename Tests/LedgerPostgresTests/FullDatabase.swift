// SPDX-License-Identifier: Apache-2.0

import TestPostgres

/// A ledger with so many rows that PostgreSQL plans its statements as for a large one.
enum FullDatabase {
    /// The rows of each table that grows.
    static let rows = 100_000

    /// An app with few events among many of another one.
    static let quietApp = "com.example.quiet"

    /// Tables that stay small: to read all of one is as good as an index.
    static let smallTables: Set<String> = [
        "apps", "scopes", "counter", "epochs", "proof", "retention", "schema_version",
    ]

    /// Fills a database in which a storage has made the tables. The contents are none that a storage can read.
    static func fill(_ database: TestDatabase) throws {
        for statement in statements { try database.psql(statement) }
    }

    /// The number of a scope in turn: the busy app's two.
    private static let scope = "1 + n % 2"

    private static let statements = [
        "INSERT INTO quittance.apps (bundle_id) VALUES ('com.example'), ('\(quietApp)')",
        """
        INSERT INTO quittance.scopes (app, environment)
        SELECT id, environment FROM quittance.apps, (VALUES ('Production'), ('Sandbox')) AS pair (environment)
        ORDER BY id, environment
        """,
        """
        INSERT INTO quittance.chains (home, scope, version, next_change, published_as_of, owner, state)
        SELECT (2000000000 + n)::text, \(scope), 1, CASE WHEN n % 3 = 0 THEN 1750000000000 + n % 1000 END,
               CASE WHEN n % 500 = 0 THEN 1750000000000 + n % 1000 END, n / 2, decode(repeat('00', 300), 'hex')
        FROM generate_series(1, \(rows)) AS n
        """,
        """
        INSERT INTO quittance.transactions (home, scope, chain, product_id)
        SELECT (2000000000 + n)::text, \(scope), (2000000000 + n / 3 * 3)::text, 'month'
        FROM generate_series(1, \(rows)) AS n
        """,
        """
        INSERT INTO quittance.customers (home, app, version, number, is_established, ids)
        SELECT 'customer ' || n, CASE WHEN n % 100 = 0 THEN 2 ELSE 1 END, 1, n / 2, true,
               array['customer ' || n / 2 * 2, 'customer ' || n / 2 * 2 + 1]
        FROM generate_series(2, \(rows) + 1) AS n
        """,
        """
        INSERT INTO quittance.holdings (home, scope, chain)
        SELECT (n / 2)::text, \(scope), (2000000000 + n)::text FROM generate_series(1, \(rows)) AS n
        """,
        """
        INSERT INTO quittance.documents (
            signed_date, digest, home, scope, chain, kind, received_at, wording, content)
        SELECT (SELECT extract(epoch FROM now())::bigint * 1000) + n * 100000::bigint, sha256(n::text::bytea),
               (2000000000 + n / 3)::text, \(scope), CASE WHEN n % 10 > 0 THEN (2000000000 + n / 3)::text END,
               CASE WHEN n % 3 = 0 THEN 'notification' ELSE 'transaction' END, 1750000000000 + n,
               CASE WHEN n % 3 = 1 THEN n END, sha256(n::text::bytea)
        FROM generate_series(1 - \(rows) / 2, \(rows) / 2) AS n
        """,
        """
        INSERT INTO quittance.mentions (home, scope, signed_date, digest)
        SELECT home, scope, signed_date, digest FROM quittance.documents WHERE chain IS NULL
        """,
        """
        INSERT INTO quittance.pieces (digest, content)
        SELECT sha256(n::text::bytea), sha256(n::text::bytea) FROM generate_series(1, \(rows)) AS n
        """,
        """
        INSERT INTO quittance.events (
            sequence, app, recorded_at, home, source, scope, version, place, kind, customer, body)
        SELECT n, CASE WHEN n % 10000 = 0 THEN 2 ELSE 1 END, 1750000000000 + n, (2000000000 + n)::text, 0,
               CASE WHEN n % 10000 = 0 THEN 3 ELSE 1 END, n, 0, 'subscription.renewed', n / 2, '{}'
        FROM generate_series(1, \(rows)) AS n
        """,
        """
        INSERT INTO quittance.outbox (recorded_at, home, source, scope, version, place, kind, body)
        SELECT 1760000000000 + n, (2000000000 + n)::text, 0, \(scope), n, 0, 'subscription.renewed', '{}'
        FROM generate_series(1, \(rows)) AS n
        """,
        """
        INSERT INTO quittance.records (kind, owner, home, name, version, due_at, entries, payload)
        SELECT CASE WHEN n % 2 = 0 THEN 'a' ELSE 'b' END, \(scope), 'job ' || n, 'job ' || n, 1,
            1750000000000 + n % 1000, CASE WHEN n % 10 = 0 THEN ARRAY['entry ' || n / 100] END, ''
        FROM generate_series(1, \(rows)) AS n
        """,
        "UPDATE quittance.counter SET last = \(rows)",
    ]
}

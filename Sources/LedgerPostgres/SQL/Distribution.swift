// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// Distributes the tables over the nodes of Citus, an extension of PostgreSQL.
///
/// In most tables, each row has a `home`: for example, the `home` of a chain is the chain's name, see ``Schema``. Rows
/// with the same `home` are on the same node. A statement is fast on Citus if it concerns a single table and a single
/// `home`, or tables copied to each node. Citus refuses row locks and joins across nodes. The files in `Rows` therefore
/// use different statements on Citus, see ``LoadPlan`` and ``CommitPlan``.
enum Distribution {
    /// The tables copied to each node. A write to such a table locks the table on all nodes, and commits on all of
    /// them. The recording of a document therefore writes to these tables only if the document is the first of its app,
    /// or the first of its app in its environment.
    static let copied = ["apps", "scopes", "pieces", "schema_version", "retention"]

    /// The tables that are together on a single node, so that giving events their numbers is a transaction on this node
    /// alone, see ``EventSequencer``.
    static let together = ["counter", "events", "epochs", "proof"]

    /// The tables distributed by `home`.
    static let distributed = [
        "chains", "transactions", "documents", "mentions", "customers", "holdings", "outbox", "confirmations",
        "records",
    ]

    private static let isThere = PostgresStatement.once("SELECT count(*) FROM pg_extension WHERE extname = 'citus'")

    private static let isDone = PostgresStatement.once("SELECT count(*) \(Citus.distributed)")

    private static let isCoordinator = PostgresStatement.once("SELECT citus_is_coordinator()")

    /// - Throws: `LedgerStorageError.readOnly` if the tables are not yet distributed, and this connection is not to the
    ///   coordinator, which alone can distribute them.
    static func requireNode(_ requests: RepeatedRequests) async throws {
        guard try await count(isThere, requests) > 0, try await count(isDone, requests) == 0 else { return }
        guard try await count(isCoordinator, requests) > 0 else {
            throw LedgerStorageError(
                .readOnly,
                "The ledger is not distributed yet, and only Citus's coordinator can distribute the ledger: name the "
                    + "coordinator in the address once")
        }
    }

    /// Distributes the tables if the database has Citus.
    ///
    /// - Parameter upgrades: Whether to distribute the tables if necessary.
    /// - Returns: Whether the tables are distributed.
    static func run(_ requests: RepeatedRequests, upgrades: Bool) async throws -> Bool {
        guard try await count(isThere, requests) > 0 else { return false }
        if try await count(isDone, requests) > 0 { return true }
        guard upgrades else { return false }
        do {
            // This also moves existing rows to their nodes.
            _ = try await requests.pool.run(.transaction(statements.map { .once($0) }, limit: Migrator.limit))
        } catch let failure as PostgresFailure {
            // A concurrent server may have distributed the tables first.
            guard try await count(isDone, requests) > 0 else { throw failure }
        }
        return true
    }

    private static func count(_ statement: PostgresStatement, _ requests: RepeatedRequests) async throws -> Int {
        try await requests.read(statement).map { try $0.next(Int.self) }.first ?? 0
    }

    /// The first table of each of the two lists, ``together`` and ``distributed``, is explicitly colocated with no
    /// other table. If Citus 13 chose the colocation itself, it would compare collations wrongly. The views for people
    /// are dropped, because Citus cannot plan them.
    static let statements =
        ["SET LOCAL statement_timeout = 0", Citus.sequential, "SELECT \(Conflict.distribution)::text"]
        + PeopleViews.drop + additions + [fillAdditions]
        + copied.map { "SELECT create_reference_table('quittance.\($0)')::text" }
        + together.map { table in
            let other = table == together[0] ? "none" : "quittance.\(together[0])"
            return """
                SELECT create_distributed_table('quittance.\(table)', NULL, distribution_type => NULL, \
                colocate_with => '\(other)')::text
                """
        }
        + distributed.map { table in
            let other = table == distributed[0] ? "none" : "quittance.\(distributed[0])"
            return "SELECT create_distributed_table('quittance.\(table)', 'home', colocate_with => '\(other)')::text"
        }

    /// The columns and the table that only a distributed ledger has.
    ///
    /// A document can be evidence for several chains (subscriptions with all their renewals, or products bought once).
    /// `documents.also` names these chains except the one in `chain`, in the form of `HomeChainName`.
    /// `mentions.document` is the `home` of the mentioned document's row. With these two columns, the rows of a chain
    /// lead to each `home` of its documents, and the row of a document leads to each `home` of its chains, see
    /// ``DocumentLocation``.
    ///
    /// A write to `confirmations` has a single purpose: it waits for the synchronous standby of the node that holds the
    /// row.
    static let additions = [
        "ALTER TABLE quittance.documents ADD COLUMN IF NOT EXISTS also text[]",
        "ALTER TABLE quittance.mentions ADD COLUMN IF NOT EXISTS document text COLLATE \"C\"",
        """
        CREATE TABLE IF NOT EXISTS quittance.confirmations (
            home text COLLATE "C" PRIMARY KEY, written bigint NOT NULL)
        """,
    ]

    /// Fills in the columns of ``additions`` for documents about several chains, and for documents that have a
    /// different `home` than their chain. A document of these two kinds takes several statements, but such documents
    /// are few. Documents in detached tables are skipped, because their `home` cannot be read.
    private static let fillAdditions = """
        DO $$ DECLARE
            stored record; at_home text; names text[];
        BEGIN
            FOR stored IN SELECT DISTINCT signed_date, digest FROM quittance.mentions LOOP
                SELECT documents.home INTO at_home FROM quittance.documents
                WHERE signed_date = stored.signed_date AND digest = stored.digest;
                CONTINUE WHEN at_home IS NULL;
                SELECT array_agg(environment || ' ' || mentions.home) INTO names
                FROM quittance.mentions JOIN quittance.scopes ON scopes.id = scope
                WHERE signed_date = stored.signed_date AND digest = stored.digest;
                UPDATE quittance.mentions SET document = at_home
                WHERE signed_date = stored.signed_date AND digest = stored.digest;
                UPDATE quittance.documents SET also = names
                WHERE signed_date = stored.signed_date AND digest = stored.digest AND home = at_home;
            END LOOP;
            FOR stored IN
                SELECT chain, scope, signed_date, digest, home FROM quittance.documents WHERE chain <> home
            LOOP
                INSERT INTO quittance.mentions (home, scope, signed_date, digest, document)
                VALUES (stored.chain, stored.scope, stored.signed_date, stored.digest, stored.home)
                ON CONFLICT DO NOTHING;
            END LOOP;
        END $$
        """
}

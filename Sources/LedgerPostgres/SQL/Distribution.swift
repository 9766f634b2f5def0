// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// Distributes the tables over the nodes of Citus, an extension of PostgreSQL.
///
/// Rows with the same `home` are on the same node. Citus runs a statement quickly if it is about one table and one
/// `home`, or about tables of which each node has a copy. It refuses to lock rows, and to join, over several nodes.
/// What the statements do about that is in the files in `Rows`, see ``LoadPlan`` and ``CommitPlan``.
enum Distribution {
    /// The tables that each node has a copy of. Writing one locks it and is a commit of all nodes, so no intake does.
    static let copied = ["apps", "scopes", "pieces", "schema_version", "retention"]

    /// The tables that are on one node, the same one: numbering events is then a transaction of one node.
    static let together = ["counter", "events", "epochs", "proof"]

    /// The tables that are distributed by `home`.
    static let distributed = [
        "chains", "transactions", "documents", "mentions", "customers", "holdings", "outbox", "confirmations",
        "records",
    ]

    private static let isThere = PostgresStatement.once("SELECT count(*) FROM pg_extension WHERE extname = 'citus'")

    private static let isDone = PostgresStatement.once("SELECT count(*) \(Citus.distributed)")

    private static let isCoordinator = PostgresStatement.once("SELECT citus_is_coordinator()")

    /// - Throws: `LedgerStorageError.readOnly` if the tables still have to be distributed, and this connection is not
    ///   to the coordinator.
    static func requireNode(_ requests: RepeatedRequests) async throws {
        guard try await count(isThere, requests) > 0, try await count(isDone, requests) == 0 else { return }
        guard try await count(isCoordinator, requests) > 0 else {
            throw LedgerStorageError(
                .readOnly,
                "The ledger is not distributed yet, which only Citus's coordinator can do: name it in the address once")
        }
    }

    /// Distributes the tables if the database has Citus.
    ///
    /// - Parameter upgrades: Whether to distribute them if they are not.
    /// - Returns: Whether they are distributed.
    static func run(_ requests: RepeatedRequests, upgrades: Bool) async throws -> Bool {
        guard try await count(isThere, requests) > 0 else { return false }
        if try await count(isDone, requests) > 0 { return true }
        guard upgrades else { return false }
        do {
            // Rows that are there are moved.
            _ = try await requests.pool.run(.transaction(statements.map { .once($0) }, limit: Migrator.limit))
        } catch let failure as PostgresFailure {
            // Another server was faster: it is done, or was refused for the same reason.
            guard try await count(isDone, requests) > 0 else { throw failure }
        }
        return true
    }

    private static func count(_ statement: PostgresStatement, _ requests: RepeatedRequests) async throws -> Int {
        try await requests.read(statement).map { try $0.next(Int.self) }.first ?? 0
    }

    /// The first table of each kind has nothing to be with: Citus 13 compares collations wrongly if it chooses itself.
    /// Citus cannot plan the views for people.
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

    /// What only distributed tables have. `also` names the chains that a document is evidence for besides `chain`, as
    /// `DocumentHomes` does; `mentions.document` is the home of the document. So the one is found from the home of
    /// the other, see ``DocumentLocation``. A write of `confirmations` waits for the standby of one node.
    static let additions = [
        "ALTER TABLE quittance.documents ADD COLUMN IF NOT EXISTS also text[]",
        "ALTER TABLE quittance.mentions ADD COLUMN IF NOT EXISTS document text COLLATE \"C\"",
        """
        CREATE TABLE IF NOT EXISTS quittance.confirmations (
            home text COLLATE "C" PRIMARY KEY, written bigint NOT NULL)
        """,
    ]

    /// Fills in ``additions`` for documents about several chains or with another home than their
    /// chain's. There are few, and each is found on all nodes. Those that were detached are left out.
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

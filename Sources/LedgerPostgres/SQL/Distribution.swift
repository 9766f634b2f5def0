// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// Distributes the tables over the nodes of Citus, an extension of PostgreSQL.
///
/// Rows with the same `home` are on the same node. Citus runs a statement quickly if it is about one table and one
/// `home`, or about tables of which each node has a copy. It refuses to lock rows, and to join, over several nodes.
/// What the statements do about that is in the files in `Rows`, see ``LoadPlan`` and ``CommitPlan``.
enum Distribution {
    /// The tables that each node has a copy of. Writing one locks it and is a commit of all nodes, so no intake does.
    static let copied = [
        "apps", "scopes", "api_keys", "pieces", "forms", "schema_version", "retention", "unfinished_copy",
    ]

    /// The tables that are on one node, the same one: numbering events is then a transaction of one node.
    static let together = ["counter", "events", "epochs", "proof"]

    /// The tables that are distributed by `home`.
    static let distributed = [
        "chains", "transactions", "documents", "mentions", "customers", "holdings", "outbox", "confirmations", "jobs",
    ]

    private static let isThere = PostgresStatement.once("SELECT count(*) FROM pg_extension WHERE extname = 'citus'")

    /// Whether the last one of the tables is distributed.
    private static let isDone = PostgresStatement.once(
        "SELECT count(*) FROM pg_dist_partition WHERE logicalrelid = to_regclass('quittance.jobs')")

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

    /// One after another over one connection to each node, since some of them make objects that the next ones need.
    /// The first table of each kind has nothing to be with: Citus 13 compares collations wrongly if it chooses itself.
    /// Citus cannot plan the views for people.
    static let statements =
        [
            "SET LOCAL statement_timeout = 0", "SET LOCAL citus.multi_shard_modify_mode TO 'sequential'",
        ]
        + ["SELECT \(Conflict.distribution)::text"] + PeopleViews.drop + Schema.homes + [Schema.fillHomes]
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
}

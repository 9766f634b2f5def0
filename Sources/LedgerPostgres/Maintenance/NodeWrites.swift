// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import Synchronization

// Checks of each Citus node: whether the node takes writes, and whether its synchronous standby has the latest records.

// MARK: - Writing

/// A home for a test write: a value of the column `home`, by which Citus chooses the node of a row.
private struct NodeProbe: Sendable {
    let home: String
    /// The host and port of the node.
    let node: String

    /// The number of homes to try. Citus distributes the homes over the shards of a table, by default 32, and each node
    /// has several shards. With 256 homes, nearly always at least one is on each node.
    private static let homes = 256

    static let find = PostgresStatement(
        """
        SELECT DISTINCT ON (nodename, nodeport) home, nodename || ':' || nodeport
        FROM (
            SELECT number::text AS home,
                get_shard_id_for_distribution_column('quittance.confirmations'::regclass, number::text) AS shardid
            FROM generate_series(1, $1::bigint) AS number) AS homes
        JOIN pg_dist_placement USING (shardid) JOIN pg_dist_node USING (groupid)
        WHERE noderole = 'primary' ORDER BY nodename, nodeport, home
        """, [.integer(Int64(homes))])

    /// Several homes to try if the database does not show which node has which home.
    static let unknown = (1...8).map { NodeProbe(home: "\($0)", node: "unknown") }
}

extension PostgresLedgerStorage {
    /// Writes a row with the given home. The statement succeeds only if the home's node takes writes, and its commit
    /// waits for the node's synchronous standby.
    static let confirmationAtHome = """
        INSERT INTO quittance.confirmations AS c (home, written) VALUES ($1, 1)
        ON CONFLICT (home) DO UPDATE SET written = c.written + 1
        """

    /// The timeout of each test write. It is shorter than a client waits, so that the client gets an answer about the
    /// other nodes even if a node is slow.
    private static let probeLimit = Duration.seconds(3)

    /// Writes a row on each node, or at several homes if the nodes are unknown.
    ///
    /// - Throws: `PostgresFailure` if no node takes a write, or if the search for the nodes fails.
    func proveNodesWritable() async throws {
        let probes = try await probes()
        let outcomes = await withTaskGroup(of: (node: String, error: (any Error)?).self) { group in
            for probe in probes { group.addTask { (probe.node, await self.failure(of: probe)) } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        let failed = outcomes.filter { $0.error != nil }
        if failed.count == probes.count, let error = failed.first?.error { throw error }
        let concern = """
            \(failed.count) of \(probes.count) nodes of the database take no writes, so what lives there is answered \
            503: \(failed.map(\.node).sorted().joined(separator: ", ")).
            """
        nodeConcern.withLock { $0 = failed.isEmpty ? nil : concern }
    }

    private func failure(of probe: NodeProbe) async -> (any Error)? {
        let statement = PostgresStatement(Self.confirmationAtHome, [.text(probe.home)])
        do {
            try await requests.send(.transaction([statement], limit: Self.probeLimit))
            return nil
        } catch {
            return error
        }
    }

    private func probes() async throws -> [NodeProbe] {
        do {
            let found = try await requests.read(NodeProbe.find).map { row in
                NodeProbe(home: try row.next(), node: try row.next())
            }
            return found.isEmpty ? NodeProbe.unknown : found
        } catch PostgresFailure.refused(let state, _) where state.hasPrefix("42") {
            // The role may not read the catalog of nodes, or this version of Citus names its columns differently.
            return NodeProbe.unknown
        }
    }
}

// MARK: - Confirming

extension PostgresLedgerStorage {
    /// Waits until the synchronous standbys of some nodes have the loaded records. The confirmation is valid only in
    /// the epoch in which the records were loaded (see ``ConnectionOpener/epoch``), because after a failover the new
    /// primary may lack the records.
    ///
    /// A commit becomes visible even if its wait for the standby is interrupted. A retried decision, or a server that
    /// receives the same document again, sees the changes and has nothing left to write, although a standby may lack
    /// the changes. Therefore this method makes a further write, which waits until the standby has all earlier writes
    /// of the same node.
    ///
    /// - Parameter homes: Homes on the nodes. If empty, the write goes to the only node, or on Citus to the node that
    ///   numbers events.
    func confirm(atHomes homes: Set<String> = [], in epoch: Int) async throws {
        let statements = homes.sorted().map { PostgresStatement(Self.confirmationAtHome, [.text($0)]) }
        let request = PostgresRequest.transaction(statements.isEmpty ? [proofOfWriting()] : statements)
        try await requests.send(request.during(epoch))
    }
}

extension [LedgerQuery] {
    /// The homes of the records that the queries name, and of the documents that the queries bring in. A home is the
    /// value by which Citus chooses the node of a row.
    var namedHomes: Set<String> {
        reduce(into: []) { homes, query in
            homes.formUnion(query.keys.compactMap(\.home))
            for document in query.arriving { homes.insert(document.home) }
        }
    }
}

extension LedgerKey {
    /// The home of the key's rows; `nil` if the key does not determine the home.
    fileprivate var home: String? {
        switch self {
        case .chain(let key), .evidence(let key): key.name
        case .transaction(let key): key.transactionId
        case .customerID(let id), .holdings(let id, _), .openHoldings(let id, _, _): id.id
        case .wording(let key): key.chain.name
        case .record(let key): key.home
        case .customer, .document, .content, .events, .marks: nil
        }
    }
}

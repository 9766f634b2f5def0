// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Loads many documents in a single statement, or finds the documents of many chains (purchases). The parts of packed
// documents (see ``PartName``) take two statements, because they are in two tables. Each `OFFSET 0` makes the planner
// look up each name by an index instead of scanning the table.

extension LoadPlan {
    private static let documents = RowStatement.reading([.integer, .bytes]) { names in
        """
        SELECT found.signed_date, found.digest, bundle_id, environment, kind, received_at, notification_type,
               notification_subtype, notification_uuid, wording, is_pinned, content
        FROM \(names) AS wanted (signed_date, digest), \(named("*")) AS found
        JOIN quittance.scopes ON scopes.id = found.scope JOIN quittance.apps ON apps.id = app
        """
    }

    /// A lateral subquery that finds the document for a row of `wanted`, which has the name of a document: its signing
    /// date and digest.
    private static func named(_ columns: String) -> String {
        """
        LATERAL (SELECT \(columns) FROM quittance.documents
                 WHERE documents.signed_date = wanted.signed_date AND documents.digest = wanted.digest OFFSET 0)
        """
    }

    mutating func load(_ names: Set<Provenance>) {
        guard !names.isEmpty else { return }
        add(Self.documents.statement(names.map(\.key))) { rows, loaded in
            for row in try rows.map({ try DocumentRow(&$0) }) { loaded.rows[row.name] = row }
        }
    }

    private static let sharedBlobs = RowStatement.reading([.bytes]) { digests in
        """
        SELECT wanted.digest, content FROM \(digests) AS wanted (digest), LATERAL (
            SELECT content FROM quittance.pieces WHERE pieces.digest = wanted.digest OFFSET 0) AS found
        """
    }

    private static let contents = RowStatement.reading([.integer, .bytes]) { names in
        """
        SELECT wanted.signed_date, wanted.digest, content
        FROM \(names) AS wanted (signed_date, digest), \(named("content")) AS found
        """
    }

    /// Loads the parts of packed documents from their own rows.
    mutating func load(_ parts: Set<PartName>) {
        let digests = parts.compactMap { if case .sharedBlob(let digest) = $0 { digest } else { nil } }
        let names = parts.compactMap { if case .document(let name) = $0 { name } else { nil } }
        if !digests.isEmpty {
            add(Self.sharedBlobs.statement(digests.map { [.bytes($0)] })) { rows, loaded in
                for (digest, content) in try rows.map({ (try $0.next([UInt8].self), try $0.next([UInt8].self)) }) {
                    loaded.parts[.sharedBlob(digest)] = content
                }
            }
        }
        guard !names.isEmpty else { return }
        add(Self.contents.statement(names.map(\.key))) { rows, loaded in
            for (name, content) in try rows.map({ (try $0.name(), try $0.next([UInt8].self)) }) {
                loaded.parts[.document(name)] = content
            }
        }
    }

    /// Selects the documents of each chain, with all chains of each document. A document listed in `mentions` is left
    /// out if its table has been detached, see ``Schema``.
    private static let evidence = RowStatement.reading([.text, .integer]) { keys in
        """
        WITH asked AS MATERIALIZED (SELECT home, scope FROM \(keys) AS keys (home, scope)),
        named AS MATERIALIZED (
            SELECT asked.home AS asked_home, asked.scope AS asked_scope, found.*
            FROM asked, LATERAL (
                SELECT signed_date, digest, chain, scope FROM quittance.documents
                WHERE documents.chain = asked.home AND documents.scope = asked.scope OFFSET 0) AS found
            UNION ALL
            SELECT asked.home, asked.scope, found.*
            FROM asked, LATERAL (
                SELECT signed_date, digest FROM quittance.mentions
                WHERE mentions.home = asked.home AND mentions.scope = asked.scope OFFSET 0) AS wanted,
            \(named("signed_date, digest, chain, scope")) AS found)
        SELECT asked_home, asked_scope, signed_date, digest, chain, bundle_id, environment
        FROM named JOIN quittance.scopes ON scopes.id = named.scope JOIN quittance.apps ON apps.id = app
        WHERE chain IS NOT NULL
        UNION ALL SELECT asked_home, asked_scope, named.signed_date, named.digest, found.home, bundle_id, environment
        FROM named, LATERAL (
            SELECT home, scope FROM quittance.mentions
            WHERE mentions.signed_date = named.signed_date AND mentions.digest = named.digest OFFSET 0) AS found
        JOIN quittance.scopes ON scopes.id = found.scope JOIN quittance.apps ON apps.id = app
        """
    }

    mutating func loadEvidence(for keys: Set<ChainKey>) {
        guard !keys.isEmpty else { return }
        let numbered = keys.map { (number: scopes.scope($0.scope), key: $0) }
        let asked = Dictionary(numbered.map { ($0.number, $0.key.scope) }) { first, _ in first }
        let statement = Self.evidence.statement(numbered.map { [.text($0.key.name), .integer($0.number)] })
        add(statement) { rows, loaded in
            var chains: [ChainKey: [Provenance: Set<ChainKey>]] = [:]
            _ = try rows.map { row in
                let home = try row.next(String.self)
                let number = try row.next(Int64.self)
                let name = try row.name()
                let id = try row.next(String.self)
                let chain = ChainKey(id, in: try row.scope())
                let about = ChainKey(home, in: asked[number] ?? chain.scope)
                chains[about, default: [:]][name, default: []].insert(chain)
            }
            for (key, found) in chains {
                loaded.evidence[key] = found.sorted { $0.key < $1.key }.map {
                    DocumentReference($0.key, about: $0.value)
                }
            }
        }
    }
}

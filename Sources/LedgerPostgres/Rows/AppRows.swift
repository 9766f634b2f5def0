// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// API keys and catalogues: what belongs to an app as a whole.

extension LoadPlan {
    mutating func loadCatalogue(of bundleId: String) {
        add("SELECT catalogue FROM quittance.apps WHERE bundle_id = $1", [.text(bundleId)]) { rows, loaded in
            loaded.catalogues[bundleId] = try rows.map { try $0.next([UInt8]?.self) }.first ?? nil
        }
    }
}

extension CommitPlan {
    private static let check = """
        SELECT CASE WHEN catalogue IS DISTINCT FROM $2::bytea THEN quittance.conflict(id) END
        FROM quittance.apps WHERE id = $1 FOR SHARE
        """

    private static let putIfSame = """
        UPDATE quittance.apps SET catalogue = CASE WHEN catalogue IS NOT DISTINCT FROM $3::bytea THEN $2::bytea
            ELSE quittance.conflict(id)::text::bytea END WHERE id = $1
        """

    private static let put = "UPDATE quittance.apps SET catalogue = $2 WHERE id = $1 AND catalogue IS DISTINCT FROM $2"

    /// - Parameter footprint: The catalogues in it were looked at.
    mutating func putCatalogues(_ changes: LedgerChanges, _ footprint: Footprint) {
        for bundleId in footprint.catalogues.union(changes.catalogues.keys).sorted() {
            let app = PostgresValue.integer(scopes.app(bundleId))
            let old = loaded.catalogues[bundleId].parameter
            switch (changes.catalogues[bundleId], footprint.catalogues.contains(bundleId)) {
            case (let new?, true): add(Self.putIfSame, [app, .bytes(new), old])
            case (let new?, false): add(Self.put, [app, .bytes(new)])
            case (nil, _): add(Self.check, [app, old])
            }
        }
    }

    mutating func put(_ key: APIKey) {
        add("DELETE FROM quittance.api_keys WHERE id = $1", [.text(key.id)])
        add(
            """
            INSERT INTO quittance.api_keys (id, name, role, app, secret_hash, created_at, revoked_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7)
            """,
            [
                .text(key.id), .text(key.name), key.role.parameter, .integer(scopes.app(key.bundleId)),
                .bytes(key.secretHash), key.createdAt.parameter, key.revokedAt.parameter,
            ])
    }
}

/// All API keys.
enum APIKeySearch {
    static let all = PostgresStatement(
        """
        SELECT api_keys.id, name, role, bundle_id, secret_hash, created_at, revoked_at
        FROM quittance.api_keys JOIN quittance.apps ON apps.id = app ORDER BY place
        """)

    static func found(_ rows: PostgresRows) throws -> [APIKey] {
        try rows.map { row in
            APIKey(
                id: try row.next(), name: try row.next(), role: try row.next(), bundleId: try row.next(),
                secretHash: try row.next(), createdAt: try row.next(), revokedAt: try row.next())
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// API keys and catalogues: what belongs to an app as a whole.

extension SQLiteLedgerSession {
    func apiKeys() throws -> [APIKey] {
        try all(
            """
            SELECT apiKeys.id, name, role, bundleId, secretHash, createdAt, revokedAt
            FROM apiKeys JOIN apps ON apps.id = apiKeys.app ORDER BY place
            """, []
        ) { row in
            APIKey(
                id: try row.next(), name: try row.next(), role: try row.next(), bundleId: try row.next(),
                secretHash: try row.next(), createdAt: try row.next(), revokedAt: try row.next())
        }
    }

    func put(_ key: APIKey) throws {
        try run("DELETE FROM apiKeys WHERE id = ?", [.text(key.id)])
        try run(
            "INSERT INTO apiKeys (id, name, role, app, secretHash, createdAt, revokedAt) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                .text(key.id), .text(key.name), key.role.stored, .integer(try addedApp(key.bundleId)),
                .bytes(key.secretHash), key.createdAt.stored, key.revokedAt.stored,
            ])
    }

    func catalogue(of bundleId: String) throws -> [UInt8]? {
        try first("SELECT catalogueDigest FROM apps WHERE bundleId = ?", [.text(bundleId)]) {
            try $0.next([UInt8]?.self)
        } ?? nil
    }

    func put(catalogue digest: [UInt8], of bundleId: String) throws {
        try run(
            "UPDATE apps SET catalogueDigest = ? WHERE id = ?", [.bytes(digest), .integer(try addedApp(bundleId))])
    }
}

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
        ) { try APIKey(&$0) }
    }

    func put(_ key: APIKey) throws {
        try run("DELETE FROM apiKeys WHERE id = ?", [.text(key.id)])
        try run(
            """
            INSERT INTO apiKeys (id, name, role, app, secretHash, createdAt, revokedAt) VALUES (?, ?, ?, ?, ?, ?, ?)
            """,
            [
                .text(key.id), .text(key.name), .text(key.role.rawValue), .integer(try addedApp(key.bundleId)),
                .bytes(key.secretHash), .time(key.createdAt), .time(key.revokedAt),
            ])
    }

    func catalogue(of bundleId: String) throws -> [UInt8]? {
        try first("SELECT catalogueDigest FROM apps WHERE bundleId = ?", [.text(bundleId)]) { try $0.octetsIfAny() }
            ?? nil
    }

    func put(catalogue digest: [UInt8], of bundleId: String) throws {
        try run(
            "UPDATE apps SET catalogueDigest = ? WHERE id = ?", [.bytes(digest), .integer(try addedApp(bundleId))])
    }
}

extension APIKey {
    fileprivate init(_ row: inout RowReader) throws {
        self.init(
            id: try row.text(), name: try row.text(), role: try row.word(), bundleId: try row.text(),
            secretHash: try row.octets(), createdAt: try row.time(), revokedAt: try row.timeIfAny())
    }
}

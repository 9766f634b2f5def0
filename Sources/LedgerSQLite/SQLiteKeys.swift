// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import GRDB
import PurchaseLedger

// MARK: - API keys

extension SQLiteTransaction {
    private static let keys = """
        SELECT apiKeys.id, name, role, bundleId, secretHash, createdAt, revokedAt
        FROM apiKeys JOIN apps ON apps.id = apiKeys.app
        """

    func apiKey(_ id: String) throws -> APIKey? {
        try tables.first(Self.keys + " WHERE apiKeys.id = ?", [.text(id)]) { try APIKey(&$0) }
    }

    func apiKeys() throws -> [APIKey] {
        try tables.all(Self.keys + " ORDER BY place", []) { try APIKey(&$0) }
    }

    func put(_ key: APIKey) throws {
        try tables.run("DELETE FROM apiKeys WHERE id = ?", [.text(key.id)])
        try tables.run(
            """
            INSERT INTO apiKeys (id, name, role, app, secretHash, createdAt, revokedAt) VALUES (?, ?, ?, ?, ?, ?, ?)
            """,
            [
                .text(key.id), .text(key.name), .text(key.role.rawValue),
                .integer(try tables.addedApp(key.bundleId)), .octets(key.secretHash), .time(key.createdAt),
                .time(key.revokedAt),
            ])
    }
}

extension APIKey {
    fileprivate init(_ columns: inout Columns) throws {
        self.init(
            id: try columns.text(), name: try columns.text(), role: try columns.word(), bundleId: try columns.text(),
            secretHash: try columns.octets(), createdAt: try columns.time(), revokedAt: try columns.timeIfAny())
    }
}

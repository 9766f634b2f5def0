// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import GRDB
import PurchaseLedger
import TestData
import TestProcess
import TestWorld
import Testing

@testable import LedgerSQLite

/// Tests that events keep what they said when their columns become bodies.
@Suite struct EventUpgradeTests {
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
    }

    /// The tables that an older version made, without rows.
    private func emptyOldLedger() throws -> DatabaseQueue {
        try OldLedger.write(to: folder.path())
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        let queue = try DatabaseQueue(path: folder.path(), configuration: configuration)
        try queue.write { connection in
            let names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '%\\_%' ESCAPE '\\'"
            for name in try String.fetchAll(connection, sql: names) {
                try connection.execute(sql: "DELETE FROM \(name)")
            }
        }
        return queue
    }

    /// Rows of a version without bodies, with a text for each column and with none.
    private static let old = """
        INSERT INTO apps (id, bundleId) VALUES (1, 'com.example.one'), (2, 'com.example.two');
        INSERT INTO scopes (id, app, environment) VALUES (1, 1, 'Production'), (2, 1, 'Sandbox'), (3, 2, 'Xcode');
        INSERT INTO customers (number, app) VALUES (5, 1);
        INSERT INTO customerIds (customer, place, app, id) VALUES (5, 0, 1, 'anna');
        INSERT INTO events (
            app, sequence, scope, recordedAt, kind, customer, originalTransactionId, effectiveAt, transactionId,
            productId, detail, beforeStatus, beforeProductId, beforeUntil, beforeWillRenew,
            beforeCommitmentWillRenew, afterStatus, afterProductId, afterUntil, afterWillRenew,
            afterCommitmentWillRenew)
        VALUES (1, 3, 2, 10, 'purchase.gifted', 5, '7', 9, '8', 'month', 'a"\\' || char(1) || '0é' || char(1) || '1',
                'paused', 'year', 4, 1, 0, 'active', NULL, NULL, NULL, NULL),
               (1, 2, 1, 11, 'customer.deleted', 6, NULL, 11, NULL, NULL, NULL,
                NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
               (2, 3, 3, 12, 'purchase.made', NULL, '0@16', 12, '', '', '',
                NULL, NULL, NULL, NULL, NULL, 'expired', '', 0, 0, 1);
        """

    /// The bodies, by app.
    private static let bodies = [
        "com.example.one": [
            #"{"effectiveAt":11,"before":null,"after":null}"#,
            #"""
            {"effectiveAt":9,"transactionId":"8","productId":"month","detail":"a\"\\\u0000é\u0001",\#
            "before":{"status":"paused","productId":"year","until":4,"willRenew":true,"commitmentWillRenew":false},\#
            "after":{"status":"active","productId":null,"until":null,"willRenew":null}}
            """#,
        ],
        "com.example.two": [
            #"""
            {"effectiveAt":12,"transactionId":"","productId":"","detail":"","before":null,\#
            "after":{"status":"expired","productId":"","until":0,"willRenew":false,"commitmentWillRenew":true}}
            """#
        ],
    ]

    @Test func `an older file's events say what they said, under the same cursors`() async throws {
        let queue = try emptyOldLedger()
        try await queue.write { try $0.execute(sql: Self.old) }
        try queue.close()
        let storage = try SQLiteLedgerStorage(path: folder.path())
        for (app, bodies) in Self.bodies {
            let page = try await storage.events(of: app, after: nil, limit: 10)
            #expect(page.events.map { String(decoding: $0.body, as: UTF8.self) } == bodies)
            guard app == "com.example.one" else { continue }
            #expect(page.events.map(\.cursor?.number) == [2, 3] && page.events.map(\.chainName) == [nil, "7"])
            #expect(page.events.map(\.kind.rawValue) == ["customer.deleted", "purchase.gifted"])
            #expect(page.events.map(\.recordedAt.milliseconds) == [11, 10])
            #expect(page.events.map(\.scope.environment) == [.production, .sandbox])
            #expect(page.customerIds == [Customer(number: 5, bundleId: app): "anna"])
        }
        #expect(try await storage.faults() == [])
    }

    /// More than are read at once.
    @Test func `all of many events are kept`() async throws {
        let queue = try emptyOldLedger()
        try await queue.write { connection in
            try connection.execute(
                sql: """
                    INSERT INTO apps (id, bundleId) VALUES (1, 'com.example.one'), (2, 'com.example.two');
                    INSERT INTO scopes (id, app, environment) VALUES (1, 1, 'Production'), (2, 2, 'Production');
                    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 2500)
                    INSERT INTO events (app, sequence, scope, recordedAt, kind, effectiveAt, detail)
                    SELECT 1 + n % 2, n, 1 + n % 2, n, 'customer.deleted', n, n FROM numbers
                    """)
        }
        try queue.close()
        let storage = try SQLiteLedgerStorage(path: folder.path())
        for (app, rest) in [("com.example.one", 0), ("com.example.two", 1)] {
            let events = try await storage.events(of: app, after: nil, limit: 5000).events
            #expect(events.map { $0.content?.detail } == (1...2500).filter { $0 % 2 == rest }.map { "\($0)" })
        }
    }
}

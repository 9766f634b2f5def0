// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import TestData
import TestPostgres
import Testing

@testable import LedgerPostgres

/// Tests that events keep what they said when their columns become bodies.
@Suite(.needsPostgres, .timeLimit(.minutes(60))) struct EventUpgradeTests {
    /// The tables of the version before bodies, with events that have numbers and events that have none.
    private static func database(onNodes: Bool = false) async throws -> TestDatabase {
        let database = try UpgradeTests.oldDatabase()
        if onNodes {
            try CitusStandIn.install(in: database)
            try database.psql(UpgradeTests.distribute.joined(separator: ";"))
        }
        try database.psql(
            """
            TRUNCATE quittance.apps, quittance.scopes, quittance.customers, quittance.holdings, quittance.epochs,
                quittance.events, quittance.outbox, quittance.jobs, quittance.api_keys RESTART IDENTITY;
            INSERT INTO quittance.apps (bundle_id) VALUES ('com.example.one'), ('com.example.two');
            INSERT INTO quittance.scopes (app, environment) VALUES (1, 'Production'), (1, 'Sandbox'), (2, 'Xcode');
            INSERT INTO quittance.customers (home, app, version, number, is_established, ids)
            VALUES ('anna', 1, 1, 5, true, '{anna}');
            UPDATE quittance.counter SET last = 3 WHERE id = 1
            """)
        let columns = """
            recorded_at, home, source, scope, version, place, kind, customer, original_transaction_id, effective_at,
            transaction_id, product_id, detail, before_status, before_product_id, before_until, before_will_renew,
            before_commitment_will_renew, after_status, after_product_id, after_until, after_will_renew,
            after_commitment_will_renew
            """
        try database.psql(
            #"""
            INSERT INTO quittance.events (sequence, app, \#(columns))
            VALUES (3, 1, 10, '7', 0, 2, 1, 0, 'purchase.gifted', 5, '7', 9, '8', 'month',
                    'a"\' || chr(1) || '0' || chr(1) || '0é' || chr(1) || '1\u0001' || chr(1) || '1', 'paused', 'year',
                    4, 1, 0, 'active', NULL, NULL, NULL, NULL),
                   (2, 1, 11, '', 2, 1, 2, 0, 'customer.deleted', 6, NULL, 11, NULL, NULL, NULL,
                    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
            INSERT INTO quittance.outbox (\#(columns))
            VALUES (12, '0@16', 0, 3, 1, 0, 'purchase.made', NULL, '0@16', 12, '', '', '',
                    NULL, NULL, NULL, NULL, NULL, 'expired', '', 0, 0, 1)
            """#)
        return database
    }

    /// The bodies, by app.
    private static let bodies = [
        "com.example.one": [
            #"{"effectiveAt":11,"before":null,"after":null}"#,
            #"""
            {"effectiveAt":9,"transactionId":"8","productId":"month",\#
            "detail":"a\"\\\u0000\u0000é\u0001\\u0001\u0001",\#
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

    @Test(.takesLong, arguments: [false, true])
    func `an older ledger's events say what they said, under the same cursors`(onNodes: Bool) async throws {
        let database = try await Self.database(onNodes: onNodes)
        let storage = try await database.storage()
        for (app, bodies) in Self.bodies {
            let page = try await storage.events(of: app, after: nil, limit: 10)
            #expect(page.events.map { String(decoding: $0.body, as: UTF8.self) } == bodies)
            for event in page.events { #expect(event.content?.body == event.body) }
            guard app == "com.example.one" else {
                #expect(page.events.map(\.cursor?.number) == [4] && page.events.map(\.chainName) == ["0@16"])
                continue
            }
            #expect(page.events.map(\.cursor?.number) == [2, 3] && page.events.map(\.chainName) == [nil, "7"])
            #expect(page.events.map(\.kind.rawValue) == ["customer.deleted", "purchase.gifted"])
            #expect(page.events.map(\.recordedAt.milliseconds) == [11, 10])
            #expect(page.events.map(\.scope.environment) == [.production, .sandbox])
            #expect(page.customerIds == [Customer(number: 5, bundleId: app): "anna"])
        }
        let views = try database.psql("SELECT count(*) FROM pg_views WHERE viewname = 'feed'")
        #expect(views == (onNodes ? "0" : "1"))
    }

    @Test func `the view of events shows what it showed, to whom it showed it`() async throws {
        let database = try await Self.database()
        let role = "\(database.name)_reader"
        try database.psql(
            """
            DROP ROLE IF EXISTS \(role);
            CREATE ROLE \(role);
            GRANT USAGE ON SCHEMA quittance TO \(role);
            GRANT SELECT ON quittance.feed TO \(role);
            CREATE VIEW public.gifts AS SELECT * FROM quittance.feed WHERE kind = 'purchase.gifted';
            GRANT SELECT ON public.gifts TO \(role)
            """)
        func rows(_ table: String) throws -> String {
            try database.psql(
                "SET ROLE \(role); SELECT row_to_json(found) FROM \(table) AS found WHERE sequence < 4 ORDER BY sequence"
            )
        }
        let escaped = #"\u00010\u00010é\u00011\\u0001\u00011"#
        let before = try rows("quittance.feed")
        #expect(before.contains(escaped) && before.contains(#""before_commitment_will_renew":false"#))
        _ = try await database.storage()
        // PostgreSQL has no text for NUL.
        let expected = before.replacing(escaped, with: #"��é\u0001\\u0001\u0001"#)
        #expect(try rows("quittance.feed") == expected)
        #expect(try rows("public.gifts") == expected.split(separator: "\n").last.map(String.init))
        #expect(throws: (any Error).self) { try rows("quittance.events") }
        try database.psql("DROP VIEW public.gifts; DROP OWNED BY \(role); DROP ROLE \(role)")
    }

    @Test func `an operator's view that is called as ours stays as it is`() async throws {
        let database = try await Self.database()
        try database.psql("DROP VIEW quittance.feed; CREATE VIEW quittance.feed AS SELECT 7 AS mine")
        _ = try await database.storage()
        #expect(try database.psql("SELECT * FROM quittance.feed") == "7")
    }

    @Test func `the view of events shows bodies that PostgreSQL has no text for`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        let scope = LedgerScope(bundleId: "com.example.one", environment: .production)
        let bodies = [
            #"{"effectiveAt":1,"detail":"\u0000\u0000\\u0000\ud83d\\\udc00é","before":null,"gift":"\uD800"}"#,
            #"{"effectiveAt":2,"after":{"status":"paused","until":4,"since":9}}"#, "{}",
        ]
        let events = bodies.map { body in
            LedgerEvent(
                Open(.purchased), in: scope, at: Timestamp(milliseconds: 5), customer: nil, chainName: nil,
                body: Array(body.utf8))
        }
        try await storage.commit(LedgerQuery()) { _ in
            var changes = LedgerChanges()
            changes.events = events
            return .commit(changes, ())
        }
        #expect(
            try await storage.events(of: scope.bundleId, after: nil, limit: 9).events.map(\.body) == events.map(\.body))
        let columns = "effective_at, detail, before_status, after_status, after_until, after_will_renew"
        let rows = try database.psql("SELECT \(columns) FROM quittance.feed ORDER BY sequence")
        #expect(rows == "1|��\\u0000�\\�é||||\n2|||paused|4|\n|||||")
    }
}

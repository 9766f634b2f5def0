// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import GRDB
import LedgerSQLite
import PurchaseLedger
import Testing

/// Tests that files of an earlier version are brought up to date.
@Suite struct MigrationTests {
    private let folder: TemporaryFolder
    private static let digest = "x'\(String(repeating: "0a", count: 32))'"
    private static let scopes = """
        INSERT INTO apps (id, bundleId) VALUES (1, 'com.example.one'), (2, 'com.example.two');
        INSERT INTO scopes (id, app, environment) VALUES (1, 1, 'Production'), (2, 2, 'Production'), (3, 1, 'Sandbox');
        """

    init() throws {
        folder = try TemporaryFolder()
    }

    /// Opens a file that has the schema of the first six steps and these rows.
    private func oldFile(_ rows: String) throws -> SQLiteLedgerStorage {
        let queue = try DatabaseQueue(path: folder.path())
        try queue.write { connection in
            try FirstSchema.create(connection)
            try connection.execute(sql: Self.scopes + rows)
        }
        try queue.close()
        return try SQLiteLedgerStorage(path: folder.path())
    }

    private static func key(_ id: String, in app: String = "com.example.one") -> ChainKey {
        ChainKey(id, in: LedgerScope(bundleId: app, environment: .production))
    }

    private static func time(_ milliseconds: Int64?) -> Timestamp? { milliseconds.map(Timestamp.init(milliseconds:)) }

    @Test func `customers of an older file are established unless they are known only from documents`()
        async throws
    {
        let storage = try oldFile(
            """
            INSERT INTO chains (id, scope, originalTransactionId, renewalSignedDate, renewalEvidence, isInBillingRetry,
                                renewalAppAccountToken)
            VALUES (1, 1, '1', 0, \(Self.digest), 0, 'named by renewal info');
            INSERT INTO statements (chain, transactionId, source, isOriginal, signedDate, evidence, productId, quantity,
                                    isUpgraded, appAccountToken)
            VALUES (1, '1', 0, 1, 0, \(Self.digest), 'p', 1, 0, 'named'),
                   (1, '2', 0, 0, 0, \(Self.digest), 'p', 1, 0, 'claimed'),
                   (1, '3', 0, 0, 0, \(Self.digest), 'p', 1, 0, 'one of two');
            INSERT INTO customers (number, app) VALUES (1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (6, 1);
            INSERT INTO customerIds (customer, place, app, id)
            VALUES (1, 1, 1, 'named'), (2, 1, 1, 'named by renewal info'), (3, 1, 1, 'own'), (4, 1, 1, 'one of two'),
                   (4, 2, 1, 'named too'), (5, 1, 2, 'named'), (6, 1, 1, 'claimed');
            INSERT INTO events (kind, scope, recordedAt, customer, detail) VALUES ('purchase.linked', 1, 0, 6, 'claim');
            """)
        let ids = ["named", "named by renewal info", "own", "one of two", "claimed"]
        let all = ids.map { CustomerID($0, of: "com.example.one") } + [CustomerID("named", of: "com.example.two")]
        let found = try await storage.load {
            $0.customers = Set(all)
            $0.chains = [Self.key("1")]
        }
        #expect(all.map { found.customer($0)?.isEstablished } == [false, false, true, true, true, true])
        #expect(found.chains[Self.key("1")]?.ownerChanges == [])
        #expect(try await storage.faults() == [])
    }

    @Test func `renewal info of an older file applies to the newest period`() async throws {
        let (start, end) = (0, 86_400_000)
        let storage = try oldFile(
            """
            INSERT INTO chains (id, scope, originalTransactionId, renewalSignedDate, renewalEvidence, autoRenewStatus,
                                isInBillingRetry)
            VALUES (1, 1, '1', \(end), \(Self.digest), 1, 1);
            INSERT INTO statements (chain, transactionId, source, isOriginal, signedDate, evidence, productId, quantity,
                                    isUpgraded, purchaseDate, expiresDate)
            VALUES (1, '1', 0, 1, \(end + 60_000), \(Self.digest), 'p', 1, 0, \(start), \(end));
            """)
        let chain = try await Ledger(storage: storage).chain(Self.key("1"))
        let state = chain?.subscription(Catalogue(), at: Timestamp(milliseconds: Int64(end + 3_600_000)))
        #expect(state?.status == .billingRetry)
    }

    /// Rows as a version with the first six steps wrote them.
    private static let chains = """
        INSERT INTO chains (id, scope, originalTransactionId, forgottenAt, toldStatus, toldProductId, toldTransactionId,
                            toldExpiresDate, toldWillRenew, toldRevoked, toldEntitling, nextChange, lastDocument,
                            documentCount)
        VALUES (1, 1, 'active', NULL, 'active', 'p', 't', 50, 1, NULL, 1, 50, 2, 2),
               (2, 1, 'expired', NULL, 'expired', 'p', 't', 50, 0, NULL, 0, NULL, NULL, 0),
               (3, 1, 'bought', NULL, NULL, 'p', 't', NULL, NULL, NULL, 1, NULL, NULL, 0),
               (4, 1, 'refunded', NULL, NULL, 'p', 't', NULL, NULL, '["t"]', 0, NULL, NULL, 0),
               (5, 1, 'used', NULL, NULL, 'p', 't', NULL, NULL, NULL, 0, NULL, NULL, 0),
               (6, 1, 'erased', 70, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0),
               (7, 2, 'active', NULL, 'active', 'p', 't', 50, 1, NULL, 1, 50, NULL, 0);
        """

    @Test func `changes that were published in an older file are not published again`() async throws {
        let storage = try oldFile(
            Self.chains + """
                INSERT INTO events (sequence, kind, scope, recordedAt, originalTransactionId)
                VALUES (1, 'subscription.started', 1, 40, 'active'), (2, 'purchase.linked', 1, 30, 'active'),
                       (3, 'subscription.started', 2, 90, 'active');
                """)
        typealias Published = (id: String, status: SubscriptionState.Status?, until: Int64?, isSubscription: Bool?)
        let expected: [Published] = [
            ("active", .active, 50, true), ("expired", .expired, nil, true), ("bought", .active, nil, false),
            ("refunded", .revoked, nil, false), ("used", .expired, nil, false), ("erased", nil, nil, nil),
        ]
        let found = try await storage.load { $0.chains = Set(expected.map { Self.key($0.id) }) }.chains
        for (id, status, until, isSubscription) in expected {
            let record = found[Self.key(id)]
            #expect(record?.report?.state.status.known == status, "\(id)")
            #expect(record?.report?.state.until == Self.time(until), "\(id)")
            #expect(record?.report?.isSubscription == isSubscription, "\(id)")
        }
        #expect(found[Self.key("active")]?.lastEventAt == Self.time(40))
        #expect(found[Self.key("active")]?.report?.nextChange == Self.time(50))
        #expect(found[Self.key("refunded")]?.report?.revoked == ["t"])
        #expect(found[Self.key("erased")]?.erasedAt == Self.time(70))
        #expect(try await storage.faults() == [])
    }

    @Test func `events of an older file keep their cursors, even cursors beyond the app's own events`()
        async throws
    {
        let storage = try oldFile(
            """
            INSERT INTO customers (number, app) VALUES (1, 1);
            INSERT INTO customerIds (customer, place, app, id) VALUES (1, 1, 1, 'anna');
            INSERT INTO events (sequence, kind, scope, recordedAt, customer, originalTransactionId, transactionId,
                                productId, detail)
            VALUES (1, 'subscription.started', 1, 10, 1, 'c', 't', 'p', 'd'),
                   (2, 'purchase.made', 2, 20, 1, NULL, NULL, NULL, NULL),
                   (3, 'purchase.linked', 3, 30, 7, NULL, NULL, NULL, NULL),
                   (4, 'purchase.made', 2, 40, NULL, NULL, NULL, NULL, NULL),
                   (5, 'purchase.made', 2, 50, NULL, NULL, NULL, NULL, NULL);
            """)
        func cursors(_ app: String, after cursor: String? = nil) async throws -> [String?] {
            let cursor = cursor.map(EventCursor.init(rawValue:))
            return try await storage.events(of: app, after: cursor, limit: 9).events.map(\.cursor?.rawValue)
        }
        #expect(try await cursors("com.example.one") == ["1", "3"])
        #expect(try await cursors("com.example.two", after: "2") == ["4", "5"])
        let page = try await storage.events(of: "com.example.one", after: nil, limit: 1)
        #expect(page.customerIds == [Customer(number: 1, bundleId: "com.example.one"): "anna"])
        let first = try #require(page.events.first)
        #expect(first.recordedAt == Self.time(10) && first.effectiveAt == Self.time(10) && first.detail == "d")
        #expect(first.before == nil && first.after == nil && first.transactionId == "t")

        // An earlier version could return cursor 5 to the first app, because the events of all apps had one sequence.
        for app in ["com.example.one", "com.example.new"] {
            #expect(try await cursors(app, after: "5") == [])
            await #expect(throws: EventCursorError.lost(oldest: EventCursor(5))) { try await cursors(app, after: "6") }
        }
        let scopes = ["com.example.one", "com.example.new"].map { LedgerScope(bundleId: $0, environment: .production) }
        try await storage.commit { changes in
            changes.events = scopes.map { LedgerEvent(.purchased, in: $0, at: Timestamp(milliseconds: 60)) }
        }
        for app in ["com.example.one", "com.example.new"] {
            // An app that is new to the file has no epoch without an id.
            let new = try await cursors(app, after: app == "com.example.new" ? "0" : "5").compactMap(\.self)
            #expect(new.map { $0.prefix(2) } == ["6."])
            #expect(try await cursors(app, after: new.first) == [])
        }
    }

    @Test func `documents of an older file stay evidence for their chains, but not for those that were erased`()
        async throws
    {
        let document = Array("document".utf8)
        let id = DocumentDigest(document, .notification)
        let digest = "x'\(String("\(id)".prefix(32)))'"
        let content = "x'00' || CAST('document' AS BLOB)"
        let storage = try oldFile(
            Self.chains + """
                INSERT INTO documents (number, signedDate, digest, scope, chain, previous, kind, receivedAt, content)
                VALUES (1, 1, \(digest), 1, 1, NULL, 'notification', 0, CAST(\(content) AS BLOB)),
                       (2, 2, \(digest), 1, 1, 1, 'notification', 0, CAST(\(content) AS BLOB)),
                       (3, 3, \(digest), 1, NULL, NULL, 'notification', 0, CAST(\(content) AS BLOB));
                INSERT INTO mentions (chain, document) VALUES (1, 3), (2, 3), (6, 3);
                """)
        let keys = ["active", "expired", "erased"].map { Self.key($0) }
        let names = (1...3).map { Provenance(signedDate: Timestamp(milliseconds: $0), digest: id) }
        let evidence = try await storage.load { $0.evidence = Set(keys) }.evidence
        let shared = DocumentReference(names[2], about: [keys[0], keys[1]])
        let own = names.prefix(2).map { DocumentReference($0, about: [keys[0]]) }
        #expect(evidence[keys[0]]?.sorted { $0.name < $1.name } == own + [shared])
        #expect(evidence[keys[1]] == [shared])
        #expect(evidence[keys[2]] ?? [] == [])

        let found = "SELECT count(*) FROM pragma_table_info('documents') WHERE name = 'previous'"
        #expect(try await storage.number(found) == 0)
        try await storage.commit { $0.erasedChains = [keys[0]] }
        #expect(try await storage.load { $0.names = Set(names) }.names == [names[2]])
        #expect(try await storage.faults() == [])
    }

    @Test func `a migrated file has the tables of a new one, and no reference is broken`() async throws {
        func schema(_ path: String) throws -> [String] {
            try DatabaseQueue(path: path).read { connection in
                let sql = "SELECT type || name || coalesce(sql, '') FROM sqlite_schema ORDER BY type, name"
                let steps = try String.fetchAll(connection, sql: "SELECT identifier FROM grdb_migrations")
                return try String.fetchAll(connection, sql: sql) + steps
            }
        }
        let migrated = try oldFile(Self.chains)
        #expect(try await migrated.faults() == [])
        try migrated.close()
        try SQLiteLedgerStorage(path: folder.path("new")).close()
        #expect(try schema(folder.path()) == schema(folder.path("new")))
    }

    @Test func `a file of the version before offers and commitments is filled in by a rebuild, without events`()
        async throws
    {
        var appStore = try AppStore()
        let now = Timestamp(milliseconds: 1_750_000_000_000)
        let storage = try SQLiteLedgerStorage(path: folder.path())
        _ = try await Ledger(storage: storage).record(
            [appStore.evidence(of: appStore.notification())], at: now)
        let keys = Set(try await storage.scanChains(after: nil, limit: 1).items)
        let expected = try await storage.load { $0.chains = keys }.chains
        try #require(expected.values.first?.chain.purchases.first?.commitment?.billingPeriodNumber == 1)
        let count = try await storage.number("SELECT count(*) FROM events")
        try await storage.execute("DROP INDEX chainsAhead; DROP INDEX documentsByWording")
        for (table, columns) in Self.newColumns {
            for column in columns { try await storage.execute("ALTER TABLE \(table) DROP COLUMN \(column)") }
        }
        try await storage.execute("DROP TABLE jobs; DROP TABLE epochs; DROP TABLE unfinishedCopy")
        try await storage.execute("DELETE FROM grdb_migrations WHERE identifier > '017'")
        try storage.close()

        let migrated = try SQLiteLedgerStorage(path: folder.path())
        let before = try await migrated.load { $0.chains = keys }.chains
        #expect(before.values.first?.chain.purchases.first.map { [$0.price, $0.commitment?.price] } == [4990, nil])
        let ledger = Ledger(storage: migrated)
        #expect(Set(try await ledger.rebuild(by: appStore.verifier, at: now).differing) == keys)
        let rebuilt = try await migrated.load { $0.chains = keys }.chains
        #expect(rebuilt.mapValues(\.chain) == expected.mapValues(\.chain))
        #expect(try await migrated.number("SELECT count(*) FROM events") == count)
        #expect(try await ledger.rebuild(by: appStore.verifier, at: now).differing == [])

        // A rebuild without a catalogue publishes nothing. A server, which has one, publishes what is known now, once.
        let rules = LedgerRules(catalogues: [AppStore.bundleId: Catalogue()])
        _ = try await Ledger(storage: migrated, rules: rules).publishCatalogueChanges(at: now)
        #expect(try await migrated.load { $0.chains = keys }.chains == expected)
        #expect(try await migrated.number("SELECT count(*) FROM events") == count + 1)
    }

    private static let ofStatements = [
        "offerIdentifier", "offerDiscountType", "offerPeriod", "storefront", "commitmentPeriod",
        "commitmentPeriods", "commitmentExpiresDate", "commitmentPrice", "revokedSeats",
    ]

    /// By table, what "017 offers and commitments" and later steps added.
    private static let newColumns = [
        "statements": ofStatements, "residue": ofStatements,
        "chains": [
            "commitmentAutoRenewStatus", "commitmentAutoRenewProductId", "publishedCommitmentWillRenew", "claimants",
            "publishedAsOf",
        ],
        "events": ["beforeCommitmentWillRenew", "afterCommitmentWillRenew"],
        "customers": ["consentedAt"], "documents": ["wording", "isPinned"],
    ]

    @Test func `numbers of rows that were deleted from an older file are not used again`() async throws {
        let storage = try oldFile(
            """
            INSERT INTO customers (number, app) VALUES (1, 1), (7, 1);
            DELETE FROM customers WHERE number = 7;
            """)
        #expect(try await storage.number("SELECT seq FROM sqlite_sequence WHERE name = 'customers'") == 7)
        let id = CustomerID("new", of: "com.example.one")
        var query = LedgerQuery()
        query.customers = [id]
        let customer = try await storage.commit(query) { .commit(LedgerChanges(), $0.newNumbers[id]) }
        #expect(customer == 8)
    }

    @Test(arguments: [
        ("DELETE FROM grdb_migrations WHERE identifier > '004'", "development version"),
        ("INSERT INTO grdb_migrations VALUES ('007 governing period')", "development version"),
        ("INSERT INTO grdb_migrations VALUES ('999 from the future')", "newer version"),
    ])
    func `a file with steps that no release has is refused, and stays unchanged`(
        change: String, reason: String
    ) async throws {
        try await DatabaseQueue(path: folder.path()).write { connection in
            try FirstSchema.create(connection)
            try connection.execute(sql: change)
        }
        let before = try Data(contentsOf: URL(fileURLWithPath: folder.path()))
        let error = #expect(throws: LedgerStorageError.self) { try SQLiteLedgerStorage(path: folder.path()) }
        #expect(error?.code == .damaged && error?.message.contains(reason) == true)
        #expect(try Data(contentsOf: URL(fileURLWithPath: folder.path())) == before)
    }
}

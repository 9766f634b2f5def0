// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import PurchaseLedger
import TestData
import TestPostgres
import TestWorld
import Testing

@testable import LedgerPostgres

/// Tests the views that docs/postgresql.md documents for use with `psql`, see ``PostgresPeriodsTests`` for `periods`.
@Suite(.needsPostgres, .timeLimit(.minutes(60))) struct PostgresViewsTests {
    /// A filled ledger, and the instant at which everything is published.
    private struct Filled {
        let database: TestDatabase
        let storage: PostgresLedgerStorage
        let ledger: Ledger
        let store: TestStore
        let now: Timestamp

        init() async throws {
            (database, store) = (try TestPostgres.database(), try TestStore())
            storage = try await database.storage()
            now = try await FilledLedger.fill(storage, of: store)
            ledger = Ledger(storage: storage, rules: FilledLedger.rules)
            while try await ledger.publishDueChanges(at: now) > 0 { continue }
        }

        /// What the ledger answers about each id of each customer of the app, by environment.
        func answers() async throws -> [(id: String, environment: Environment, answer: Ledger.CustomerAnswer)] {
            let app = FilledLedger.scope.bundleId
            let customers = try await LedgerContent(of: storage).customers.filter { $0.customer.bundleId == app }
            var answers: [(String, Environment, Ledger.CustomerAnswer)] = []
            for id in customers.flatMap(\.ids) {
                let found = try await ledger.customer(
                    id, of: app, in: [.production, .sandbox, .xcode, .localTesting], at: now)
                answers += (found ?? [:]).map { (id, $0.key, $0.value) }
            }
            return answers
        }

        /// The lines of a query, whose columns are those of a view.
        func lines(_ columns: [String], from view: String, where condition: String = "true") throws -> Set<String> {
            let texts = columns.map { "coalesce((\($0))::text, '-')" }.joined(separator: ", ")
            let app = "bundle_id = '\(FilledLedger.scope.bundleId)'"
            let lines = try database.psql(
                "SELECT concat_ws('|', \(texts)) FROM quittance.\(view) WHERE \(app) AND (\(condition))")
            return Set(lines.split(separator: "\n").map(String.init))
        }
    }

    private static func line(_ values: Any?...) -> String {
        values.map { $0.map { "\($0)" } ?? "-" }.joined(separator: "|")
    }

    @Test(.takesLong) func `owners are those that the server answers with, under each of their ids`() async throws {
        let filled = try await Filled()
        var expected: Set<String> = []
        for (id, environment, answer) in try await filled.answers() {
            for chain in answer.chainNames {
                expected.insert(Self.line(id, answer.ids[0], environment.rawValue, chain))
            }
        }
        let columns = ["id", "customer", "environment", "original_transaction_id"]
        let found = try filled.lines(columns, from: "owners")
        #expect(expected.count > 15 && expected.contains { $0.hasPrefix("the second|user customer 0|") })
        #expect(expected.subtracting(found) == [])
        #expect(found.subtracting(expected) == [])
        // Some purchase has several owners.
        #expect(try filled.database.psql("SELECT count(other_owners) FROM quittance.chains") != "0")
    }

    @Test(.takesLong) func `the status of each purchase is the one that the server answers with`() async throws {
        let filled = try await Filled()
        var (subscriptions, owners) = ([String: String](), [String: Set<String>]())
        for (_, environment, answer) in try await filled.answers() {
            for chain in answer.chainNames { owners[chain, default: []].insert(answer.ids[0]) }
            for (chain, state) in answer.holdings.subscriptions {
                subscriptions[chain] = Self.line(
                    environment.rawValue, chain, state.status.rawValue, state.governing.productId,
                    state.accessUntil?.milliseconds, state.willRenew)
            }
        }
        let columns = [
            "environment", "original_transaction_id", "status", "product_id", "access_until", "will_renew",
        ]
        let found = try filled.lines(columns, from: "purchases", where: "is_subscription")
        #expect(subscriptions.count > 5)
        #expect(Set(subscriptions.values).subtracting(found) == [])

        // All purchases that have a report, also those without an owner.
        let chains = try await LedgerContent(of: filled.storage).chains.values
        let reported = chains.filter { $0.report != nil && $0.key.scope.bundleId == FilledLedger.scope.bundleId }
        let all = try filled.lines(
            ["original_transaction_id", "status", "gives_access::int", "access_until", "next_change"],
            from: "purchases")
        #expect(
            all
                == Set(
                    reported.map { record in
                        let report = record.report
                        return Self.line(
                            record.key.name, report?.state.status.rawValue, report?.isEntitling == true ? 1 : 0,
                            report?.state.until?.milliseconds, report?.nextChange?.milliseconds)
                    }))
        #expect(all.contains { $0.contains("|revoked|") } && all.contains { $0.contains("|active|1|") })
        for line in try filled.lines(["original_transaction_id", "customer"], from: "purchases") {
            let parts = line.split(separator: "|").map(String.init)
            #expect(owners[parts[0]]?.contains(parts[1]) ?? (parts[1] == "-"), "\(line)")
        }
    }

    @Test(.takesLong) func `a row is current until time alone changes it`() async throws {
        let filled = try await Filled()
        let database = filled.database
        let current = "SELECT count(*) FROM quittance.purchases WHERE is_current"
        #expect(try database.psql("SELECT count(*) FROM quittance.purchases WHERE next_change IS NOT NULL") != "0")
        func setNextChange(_ difference: String) throws {
            try database.psql(
                """
                UPDATE quittance.chains SET next_change = (extract(epoch FROM now()) * 1000)::bigint \(difference)
                WHERE next_change IS NOT NULL
                """)
        }
        try setNextChange("+ 600000")
        #expect(try database.psql(current) == database.psql("SELECT count(*) FROM quittance.purchases"))
        try setNextChange("- 1")
        #expect(
            try database.psql(current)
                == database.psql("SELECT count(*) FROM quittance.purchases WHERE next_change IS NULL"))
    }

    @Test func `the feed has the events that the server answers with`() async throws {
        let filled = try await Filled()
        let app = FilledLedger.scope.bundleId
        let page = try await filled.ledger.events(of: app, limit: 100_000)
        let expected = page.events.map { event in
            Self.line(
                event.cursor?.number, event.scope.environment.rawValue, event.kind.rawValue,
                event.recordedAt.milliseconds, event.content?.effectiveAt.milliseconds,
                event.customer.flatMap { page.customerIds[$0] }, event.chainName, event.content?.transactionId,
                event.content?.productId,
                event.content?.detail, event.content?.before?.status.rawValue, event.content?.after?.status.rawValue,
                event.content?.after?.until?.milliseconds, event.content?.after?.willRenew)
        }
        let found = try filled.lines(
            [
                "sequence", "environment", "kind", "recorded_at", "effective_at", "customer", "original_transaction_id",
                "transaction_id", "product_id", "detail", "before_status", "after_status", "after_until",
                "after_will_renew",
            ], from: "feed")
        #expect(expected.count > 50)
        #expect(found == Set(expected))
    }

    @Test func `a rebuild that finds nothing wrong writes no row of a view`() async throws {
        let filled = try await Filled()
        let written = """
            SELECT string_agg(xmin::text, ' ' ORDER BY home, scope, xmin::text) FROM (
                SELECT xmin, home, scope FROM quittance.chains
                UNION ALL SELECT xmin, home, scope FROM quittance.transactions) AS rows
            """
        let before = try filled.database.psql(written)
        #expect(try await filled.ledger.rebuild(by: filled.store.verifier(), at: filled.now).differing == [])
        #expect(try filled.database.psql(written) == before)
    }

    // MARK: - What they cost

    /// A ledger of 100,000 customers with a purchase each, whose rows have what the statements on the page read.
    private static func largeLedger() async throws -> TestDatabase {
        let database = try TestPostgres.database()
        try await database.storage().close()
        try database.psql(
            """
            INSERT INTO quittance.apps (bundle_id) VALUES ('com.example.notes');
            INSERT INTO quittance.scopes (app, environment) VALUES (1, 'Production'), (1, 'Sandbox');
            INSERT INTO quittance.chains (home, scope, version, state, owner, status, product_id)
            SELECT 'chain ' || n, 1, 1, repeat('x', 500)::bytea, n, 'active', 'pro'
            FROM generate_series(1, 100000) AS n;
            INSERT INTO quittance.transactions (home, scope, chain, product_id)
            SELECT 'chain ' || n, 1, 'chain ' || n, 'pro' FROM generate_series(1, 100000) AS n;
            INSERT INTO quittance.customers (home, app, version, number, is_established, ids)
            SELECT CASE n WHEN 777 THEN 'anna' ELSE 'customer ' || n END, 1, 1, n, true,
                   ARRAY[CASE n WHEN 777 THEN 'anna' ELSE 'customer ' || n END]
            FROM generate_series(1, 100000) AS n;
            INSERT INTO quittance.holdings SELECT n::text, 1, 'chain ' || n FROM generate_series(1, 100000) AS n;
            INSERT INTO quittance.events (sequence, app, recorded_at, home, source, scope, version, place, kind,
                                          customer, body)
            SELECT n, 1, n, '', 1, 1, n, 0, 'purchase.made', n, '{}' FROM generate_series(1, 100000) AS n;
            ANALYZE
            """)
        return database
    }

    @Test(.takesLong) func `no query of the page reads or sorts a large table`() async throws {
        let database = try await Self.largeLedger()
        let text = try Project.text("docs/postgresql.md")
        let section = try #require(text.split(separator: "\n## ").first { $0.hasPrefix("Look into it") })
        let block = try #require(section.firstMatch(of: /```sql\n((?s:.*?))\n```/)?.1)
        let queries = block.split(separator: ";").map { $0.trimmingCharacters(in: .whitespacesAndNewlines) }
        #expect(queries.count == 4)
        for query in queries {
            #expect(try database.psql(query) != "", "\(query)")
            let plan = try database.psql("EXPLAIN (COSTS OFF) \(query)")
            // Apps and scopes are a few rows.
            let scans = Set(plan.matches(of: /Seq Scan on (\w+)/).map { String($0.1) })
            #expect(scans.isSubset(of: ["apps", "scopes"]) && !plan.contains("Sort"), "\(query):\n\(plan)")
        }
    }

    /// A row that stays in its page changes no index. While another session still sees the rows of before, a page may
    /// be full, and a few rows move.
    @Test func `a renewal that leaves the next change alone changes no index of chains`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        for number in 0..<200 { try await TroubleTests.add(number, to: number % 4, through: storage) }
        storage.close()
        // The sessions report their counts as they end.
        let counts = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'chains'"
        var found: [Substring] = []
        while found.first != "196" {
            found = try database.psql(counts).split(separator: "|")
            try await Task.sleep(for: .milliseconds(20))
        }
        #expect(try #require(found.last.flatMap { Int($0) }) > 150)
    }

    /// A tenth is dead: too few for the usual settings, which wait for a fifth.
    @Test(.takesLong) func `autovacuum comes before a fifth of a table is dead`() async throws {
        let server = try TestPostgres()
        try server.psql("postgres", "ALTER SYSTEM SET autovacuum_naptime = 1")
        try server.psql("postgres", "SELECT pg_reload_conf()")
        let database = try server.database()
        try await database.storage().close()
        try database.psql(
            """
            INSERT INTO quittance.chains (home, scope, version, state)
            SELECT n::text, 1, 1, '' FROM generate_series(1, 30000) AS n;
            INSERT INTO quittance.records (kind, owner, home, name, version, payload)
            SELECT 'kind', 1, n::text, n::text, 1, '' FROM generate_series(1, 30000) AS n;
            INSERT INTO quittance.customers (home, app, version, number, is_established, ids)
            SELECT n::text, 1, 1, n, true, ARRAY[n::text] FROM generate_series(1, 30000) AS n
            """)
        let vacuumed = """
            SELECT count(*) FROM pg_stat_user_tables
            WHERE relname IN ('chains', 'records', 'customers') AND n_dead_tup = 0 AND autovacuum_count >
            """
        // The first run is for the new rows.
        while try database.psql(vacuumed + " 0") != "3" { try await Task.sleep(for: .milliseconds(50)) }
        try database.psql("SELECT pg_stat_reset()")
        for table in ["chains", "records", "customers"] {
            try database.psql("UPDATE quittance.\(table) SET version = 2 WHERE home::bigint % 10 = 0")
        }
        while try database.psql(vacuumed + " 0") != "3" { try await Task.sleep(for: .milliseconds(50)) }
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

extension Ledger.CustomerAnswer {
    /// The names of the customer's chains.
    fileprivate var chainNames: Set<String> { Set((purchases + [app].compactMap(\.self)).map(\.chainName)) }
}

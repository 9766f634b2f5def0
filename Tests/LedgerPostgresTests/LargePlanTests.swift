// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import PurchaseLedger
import PurchaseLedgerTesting
import TestData
import TestPostgres
import TestWorld
import Testing

@testable import LedgerPostgres

/// Tests that no statement costs more the more the ledger has, apart from a level of an index: none reads all of a
/// large table or sorts it.
@Suite(.needsPostgres, .timeLimit(.minutes(60))) struct LargePlanTests {
    /// The contract of all storages and the days of a ledger run each statement that a server has. So a new one is
    /// planned here too.
    @Test(.takesLong)
    func `no statement of a storage reads all of a large table or sorts one`() async throws {
        let server = try TestPostgres()
        let full = try await Self.fullDatabase(of: server)
        try server.psql("postgres", "ALTER SYSTEM SET log_line_prefix = '@@'")
        try server.psql("postgres", "ALTER SYSTEM SET log_statement = 'all'")
        try server.psql("postgres", "SELECT pg_reload_conf()")
        try await LedgerStorageContract {
            let database = try server.database()
            return (try await database.storage(), try await database.storage())
        }.run()
        _ = try await FilledLedger.fill(try await server.database().storage(), of: TestStore(), days: 5)

        let texts = try Self.statements(in: server.folder + "/data/log")
            .subtracting(Schema.tables)
        #expect(texts.count > 100)
        let storage = try await full.storage { $0.connections = 1 }
        for text in texts.sorted() {
            let plan = try await Self.plan(of: text, through: storage)
            // Few chains have such an instant, and the index has no others. The records with an entry are sorted, and
            // of the newest 20,000 documents the hours.
            let bounded = ["ORDER BY published_as_of DESC, home, scope", "entries @>", "received_at / 3600000"]
            let isBounded = bounded.contains { text.contains($0) }
            #expect(Plan(plan).faults.count { !isBounded || $0.contains("Seq Scan") } == 0, "\(text)\n\(plan)")
        }
    }

    /// Counts the blocks that a call reads, whatever plan it has.
    @Test(.takesLong, arguments: [true, false])
    func `what is found by its key or page by page costs the same among many`(isPlannedFull: Bool) async throws {
        let server = try TestPostgres(loading: "pg_stat_statements")
        try server.psql("postgres", "CREATE EXTENSION pg_stat_statements")
        let database = try server.database()
        let storage = try await database.storage { $0.connections = 1 }
        // PostgreSQL keeps a plan from the sixth time on, also if it was made while tables were empty.
        if !isPlannedFull { for _ in 0..<8 { try await Self.askAll(storage) } }
        try FullDatabase.fill(database)
        if isPlannedFull { try database.psql("ANALYZE") }
        // Numbers the events that wait.
        _ = try await storage.marks()
        try server.psql("postgres", "SELECT pg_stat_statements_reset()")
        for _ in 0..<2 { try await Self.askAll(storage) }
        let found = try server.psql(
            "postgres",
            """
            SELECT (shared_blks_hit + shared_blks_read) / calls, regexp_replace(query, E'\\\\s+', ' ', 'g')
            FROM pg_stat_statements JOIN pg_database ON oid = dbid
            WHERE datname LIKE 'test%' AND query ~ '^(SELECT|WITH|UPDATE|DELETE|INSERT)' ORDER BY 1 DESC
            """)
        let statements = found.split(separator: "\n").map { $0.split(separator: "|", maxSplits: 1) }
        #expect(statements.count > 15)
        // A row of a page costs its own block and some of two indexes; the tables have more than a thousand blocks.
        for statement in statements { #expect(Int(statement[0]) ?? .max < 200, "\(statement)") }
    }

    /// The full database, each of whose statements is planned as one that is kept.
    private static func fullDatabase(of server: TestPostgres) async throws -> TestDatabase {
        let database = try server.database()
        try await database.storage().close()
        try FullDatabase.fill(database)
        try database.psql("ANALYZE")
        try database.psql(planner)
        try database.psql("ALTER DATABASE \(database.name) SET plan_cache_mode = force_generic_plan")
        return database
    }

    // MARK: - Plans

    /// Plans a statement, whose parameters have any values.
    private static let planner = """
        CREATE FUNCTION plan(statement text) RETURNS text LANGUAGE plpgsql AS $$
        DECLARE
            parameters text;
            line text;
            lines text := '';
        BEGIN
            EXECUTE 'PREPARE planned AS ' || statement;
            SELECT string_agg(CASE WHEN type = 'bigint'::regtype THEN '1750000000000'
                WHEN type::text LIKE '%[]' THEN '''{}''' ELSE '''1''' END || '::' || type, ', ' ORDER BY place)
                INTO parameters
                FROM pg_prepared_statements, unnest(parameter_types) WITH ORDINALITY AS parameter (type, place)
                WHERE name = 'planned';
            FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) EXECUTE planned' || coalesce('(' || parameters || ')', '') LOOP
                lines := lines || line || E'\\n';
            END LOOP;
            DEALLOCATE planned;
            RETURN lines;
        END $$
        """

    private static func plan(of text: String, through storage: PostgresLedgerStorage) async throws -> String {
        let rows = try await storage.requests.pool.run(
            .transaction([.once("SELECT plan($1)", [.text(text)])]))
        return try rows[0].map { try $0.next(String.self) }.first ?? ""
    }

    /// The texts of the statements that servers have run, as PostgreSQL's log has them.
    private static func statements(in path: String) throws -> Set<String> {
        let log = try String(contentsOfFile: path, encoding: .utf8)
        // Not `split`, which takes half a minute for the text.
        let texts = log.components(separatedBy: "@@").compactMap { part -> String? in
            let entry = Substring(part)
            guard entry.hasPrefix("LOG:  execute "), let colon = entry.firstRange(of: ": ", after: "LOG:  execute ")
            else { return nil }
            return entry[colon.upperBound...].replacingOccurrences(of: "\n\t", with: "\n")
                .trimmingCharacters(in: .whitespacesAndNewlines)
        }
        return Set(texts).filter { $0.wholeMatch(of: #/(?s)(SELECT|WITH|INSERT|UPDATE|DELETE)\b.*/#) != nil }
            .filter { $0.contains("quittance.") }

    }

    /// What `EXPLAIN` prints.
    private struct Plan {
        let lines: [Substring]

        init(_ text: String) { lines = text.split(separator: "\n") }

        /// The nodes that cost more the more the tables have.
        var faults: [Substring] {
            lines.indices.filter { readsAll(lines[$0]) || sortsMany($0) }.map { lines[$0] }
        }

        private func readsAll(_ line: Substring) -> Bool {
            guard let match = line.firstMatch(of: #/Seq Scan on (\w+)/#) else { return false }
            return !FullDatabase.smallTables.contains(String(match.1))
        }

        /// What is sorted may be rows of a statement's own, of which there are as many as on a page, of a small table,
        /// or those of the keys that are asked.
        private func sortsMany(_ place: Int) -> Bool {
            guard lines[place].contains(#/^\s*(-> +)?(Incremental )?Sort\b(?! Key)/#) else { return false }
            let below = lines[(place + 1)...].prefix { Self.depth($0) > Self.depth(lines[place]) }
            guard !below.contains(where: { $0.contains("Index Cond: ((home = ") || $0.contains("CTE Scan on") }) else {
                return false
            }
            return below.contains { line in
                guard let match = line.firstMatch(of: #/Scan\w* .*?on (\w+)/#) else { return false }
                return !FullDatabase.smallTables.contains(String(match.1)) && !line.contains("CTE Scan")
            }
        }

        private static func depth(_ line: Substring) -> Int { line.prefix { $0 == " " }.count }
    }

    // MARK: - Work

    /// Calls everything that a server asks again and again, by key or for a page of ten.
    private static func askAll(_ storage: PostgresLedgerStorage) async throws {
        let (scope, now) = (TroubleTests.scope, Timestamp(milliseconds: 1_750_000_000_500))
        for app in [scope.bundleId, FullDatabase.quietApp] {
            let first = try await storage.events(of: app, after: nil, limit: 5)
            _ = try await storage.events(of: app, after: first.next, limit: 5)
        }
        _ = try await storage.chains(.due(at: now), limit: 10)
        _ = try await storage.chains(.ahead(of: now), limit: 10)
        let cursors = [nil, ScanCursor(rawValue: "1 2000050000")]
        for cursor in cursors { _ = try await storage.chains(.all, after: cursor, limit: 10) }
        _ = try await storage.customers(after: ScanCursor(rawValue: "25000"), limit: 10)
        let kind = RecordKind(rawValue: "a")
        for records in [RecordSelection(), RecordSelection(kind, of: .scope(scope))] {
            _ = try await storage.records(RecordSelection(records.kind, of: records.owner, dueAt: now), limit: 10)
            for cursor in [nil, ScanCursor(rawValue: #"["a",1,"job 5","job 5"]"#)] {
                _ = try await storage.records(records, after: cursor, limit: 10)
            }
        }
        _ = try await storage.records(RecordSelection(kind), after: nil, limit: 10)
        _ = try await storage.records(RecordSelection(kind, entry: "entry 7"), after: nil, limit: 10)
        _ = try await storage.notificationHours(of: nil, among: 10, limit: 10)
        _ = try await storage.documents(.newest(in: .production, among: 10), limit: 10)
        _ = try await storage.eraseEvents(before: Timestamp(milliseconds: 1), limit: 10)
        let (missing, nothing) = (
            Evidence(.receipt, Array("1".utf8), scope, nil) { _ in ([], []) }, ChainKey("nothing", in: scope)
        )
        let query = LedgerQuery([
            .customerID(CustomerID("nobody", of: scope.bundleId)), .document(missing.provenance), .chain(nothing),
            .transaction(TransactionKey("nothing", in: scope)), .evidence(nothing),
        ])
        _ = try await storage.load(query)
        _ = try await storage.statementCount(query)
    }
}

extension Substring {
    /// The first occurrence of a text after a prefix.
    fileprivate func firstRange(of text: String, after prefix: String) -> Range<Index>? {
        self.dropFirst(prefix.count).firstRange(of: text)
    }
}

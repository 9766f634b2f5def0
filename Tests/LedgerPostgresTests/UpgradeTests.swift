// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import TestPostgres
import TestProcess
import Testing

@testable import LedgerPostgres

/// Tests the upgrade of a database in which an older version made the ledger. ``OldLedgerTests`` compare what it
/// answers.
@Suite(.needsPostgres) struct UpgradeTests {
    static func oldDatabase(in schema: String = "quittance") throws -> TestDatabase {
        let database = try TestPostgres.database()
        try database.loadOldLedger(in: schema)
        return database
    }

    private static func version(_ database: TestDatabase) throws -> String {
        try database.psql("SELECT version FROM quittance.schema_version")
    }

    /// All that a schema has, a line each: relations with their settings, columns in their order, constraints, indexes,
    /// views, functions and triggers. The tables of quarters are left out, which depend on the time.
    private static func catalog(_ database: TestDatabase) throws -> [Substring] {
        try database.psql(
            """
            WITH ours AS (
                SELECT pg_class.oid, relname, relkind, reloptions FROM pg_class
                WHERE relnamespace = 'quittance'::regnamespace AND relname !~ '^documents_[0-9]{4}q')
            SELECT concat_ws(' ', relname, relkind, reloptions) FROM ours
            UNION ALL SELECT concat_ws(' ', relname, row_number() OVER (PARTITION BY attrelid ORDER BY attnum), attname,
                    format_type(atttypid, atttypmod), attnotnull, attstorage, attidentity, collname,
                    pg_get_expr(adbin, adrelid))
                FROM ours JOIN pg_attribute ON attrelid = ours.oid AND attnum > 0 AND NOT attisdropped
                LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
                LEFT JOIN pg_collation ON pg_collation.oid = attcollation
            UNION ALL SELECT concat_ws(' ', relname, conname, pg_get_constraintdef(pg_constraint.oid))
                FROM ours JOIN pg_constraint ON conrelid = ours.oid
            UNION ALL SELECT pg_get_indexdef(indexrelid) FROM ours JOIN pg_index ON indrelid = ours.oid
            UNION ALL SELECT concat_ws(' ', relname, pg_get_viewdef(oid)) FROM ours WHERE relkind = 'v'
            UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'quittance'::regnamespace
            UNION ALL SELECT tgname FROM ours JOIN pg_trigger ON tgrelid = ours.oid
            ORDER BY 1
            """
        ).split(separator: "\n")
    }

    private static let newCatalog = Task {
        let database = try TestPostgres.database()
        _ = try await database.storage()
        return try catalog(database)
    }

    private static func requireNewCatalog(_ database: TestDatabase) async throws {
        let (found, new) = (Set(try catalog(database)), Set(try await newCatalog.value))
        #expect(found.subtracting(new) == [])
        #expect(new.subtracting(found) == [])
    }

    @Test func `an upgraded ledger has the tables of a new one, and no fault`() async throws {
        let database = try Self.oldDatabase()
        let storage = try await database.storage()
        #expect(try Self.version(database) == "\(Schema.version)")
        try await Self.requireNewCatalog(database)
        #expect(try await storage.faults() == [])
        #expect(try await storage.documentCount() == 139)
        try await database.storage(upgrades: false).proveWritable()
    }

    /// Such a ledger was begun before there were holdings, packed documents and the marker: customers have lists of
    /// chains, which triggers copy.
    private static let earlier = """
        UPDATE quittance.forms SET documents = 0, customers = 0;
        ALTER TABLE quittance.schema_version ALTER ledger DROP NOT NULL;
        CREATE TRIGGER hold AFTER INSERT OR DELETE ON quittance.customers
            FOR EACH ROW EXECUTE FUNCTION quittance.hold();
        CREATE TRIGGER hold_changes AFTER UPDATE OF number, chains ON quittance.customers FOR EACH ROW
            WHEN (OLD.number <> NEW.number OR OLD.chains <> NEW.chains) EXECUTE FUNCTION quittance.hold();
        INSERT INTO quittance.customers (home, app, version, number, is_established, ids, chains)
        SELECT 'lisa', 1, 1, 999, true, '{lisa}', array[environment || ' ' || home]
        FROM quittance.chains JOIN quittance.scopes ON scopes.id = scope WHERE home = '410000000000011';
        """

    @Test func `a ledger that an even earlier version has begun gets the tables of a new one too`() async throws {
        let database = try Self.oldDatabase()
        try database.psql(Self.earlier)
        let storage = try await database.storage()
        try await Self.requireNewCatalog(database)
        #expect(try database.psql("SELECT chain FROM quittance.holdings WHERE home = '999'") == "410000000000011")
        #expect(try await storage.faults() == [])
    }

    @Test func `a ledger of the previous version gets the column that it lacks`() async throws {
        let database = try TestPostgres.database()
        _ = try await database.storage()
        let new = try Self.catalog(database)
        try database.psql("ALTER TABLE quittance.customers DROP grants")
        try database.psql("UPDATE quittance.schema_version SET version = \(SchemaUpgrade.previous)")
        _ = try await database.storage()
        #expect(try Self.catalog(database) == new)
        #expect(try Self.version(database) == "\(Schema.version)")
    }

    @Test func `many servers that find an older version upgrade it once`() async throws {
        let database = try Self.oldDatabase()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<6 {
                group.addTask { try await database.storage { $0.connections = 1 }.proveWritable() }
            }
            try await group.waitForAll()
        }
        #expect(try Self.version(database) == "\(Schema.version)")
        #expect(try database.psql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == "0")
        try await Self.requireNewCatalog(database)
    }

    @Test(arguments: [1, SchemaUpgrade.withoutRecords - 1, SchemaUpgrade.withoutRecords + 1])
    func `a ledger of a version between releases is refused, and not changed`(version: Int) async throws {
        let database = try Self.oldDatabase()
        try database.psql("UPDATE quittance.schema_version SET version = \(version)")
        let before = try Self.catalog(database)
        for upgrades in [true, false] {
            await #expect {
                _ = try await database.storage(upgrades: upgrades)
            } throws: { error in
                (error as? LedgerStorageError)?.code == .damaged && "\(error)".contains("development version")
            }
        }
        #expect(try Self.version(database) == "\(version)")
        #expect(try Self.catalog(database) == before)
    }

    @Test func `an old ledger is not opened by a command that does not upgrade, which says what does`() async throws {
        let database = try Self.oldDatabase()
        await #expect {
            _ = try await database.storage(upgrades: false)
        } throws: { error in
            "\(error)".contains("quittance serve, or quittance migrate as its owner, brings it up to date")
        }
    }

    @Test func `half a copy of an older version is refused, and its copy goes on`() async throws {
        let database = try Self.oldDatabase()
        try database.psql("INSERT INTO quittance.unfinished_copy (id, source, began_at) VALUES (1, 'sqlite:\"a\"', 7)")
        for _ in 0..<2 {
            await #expect { _ = try await database.storage() } throws: { error in
                (error as? LedgerStorageError)?.code == .unfinishedCopy
            }
        }
        let note = UnfinishedCopy(source: "sqlite:\"a\"", beganAt: Timestamp(milliseconds: 7))
        #expect(try await database.storage(continuesCopy: true).unfinishedCopy() == note)
    }

    /// A name that is taken would be tried again in vain, up to the limit on attempts.
    @Test func `an upgrade that fails is reported at once, and leaves the old ledger whole`() async throws {
        let database = try Self.oldDatabase()
        try database.psql("CREATE FUNCTION quittance.conflict(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT $1'")
        let before = try Self.catalog(database)
        await #expect { _ = try await database.storage() } throws: { error in "\(error)".contains("42723") }
        #expect(try Self.version(database) == "\(SchemaUpgrade.withoutRecords)")
        #expect(try Self.catalog(database) == before)
    }

    @Test func `an old ledger in public is upgraded there, also if the schema of a role comes first`() async throws {
        let database = try Self.oldDatabase(in: "public")
        try database.psql("CREATE SCHEMA postgres; CREATE TABLE postgres.chains (id bigint)")
        let storage = try await database.storage()
        #expect(try await storage.documentCount() == 139)
        #expect(try database.psql("SELECT version FROM public.schema_version") == "\(Schema.version)")
        #expect(try database.psql("SELECT to_regnamespace('quittance') IS NULL") == "t")
    }

    /// As the older version distributes its tables.
    static let distribute =
        PeopleViews.drop + Distribution.additions + ["SELECT create_reference_table('quittance.forms')"]
        + ["SELECT create_reference_table('quittance.api_keys')"]
        + Distribution.statements.filter { $0.contains("_table('quittance.") && !$0.contains("records") }
        + ["SELECT create_distributed_table('quittance.jobs', 'home', colocate_with => 'quittance.chains')"]

    @Test func `the tables on the nodes of Citus are upgraded, and no statement is known to be refused`() async throws {
        let database = try Self.oldDatabase()
        try CitusStandIn.install(in: database)
        try database.psql(Self.distribute.joined(separator: ";"))
        let storage = try await database.storage()
        #expect(storage.isDistributed)
        #expect(try Self.version(database) == "\(Schema.version)")
        let unknown = """
            SELECT proname FROM pg_proc LEFT JOIN pg_dist_object ON objid = pg_proc.oid
            WHERE pronamespace = 'quittance'::regnamespace AND objid IS NULL
            """
        #expect(try database.psql(unknown) == "")
        try await storage.proveWritable()
        let app = "com.example.notes"
        #expect(try await storage.events(of: app, after: nil, limit: 500).events.count == 78)
    }

    /// Adds what an upgrade may add.
    private static let next = [
        "ALTER TABLE quittance.chains ADD COLUMN later bigint", "CREATE TABLE quittance.later (id bigint PRIMARY KEY)",
        "ALTER TABLE quittance.records ADD COLUMN later text",
    ]

    /// Statements that servers have prepared refer to the tables as they were.
    @Test func `servers go on while and after columns are added to their tables`() async throws {
        let database = try TestPostgres.database()
        let servers = [try await database.storage(), try await database.storage()]
        try await withThrowingTaskGroup(of: Void.self) { group in
            for lane in 0..<4 {
                group.addTask {
                    for number in 0..<20 {
                        try await TroubleTests.add(lane * 100 + number, to: lane, through: servers[lane % 2])
                        _ = try await servers[lane % 2].documentCount()
                    }
                }
            }
            group.addTask { _ = try await aside { try database.psql(Self.next.joined(separator: ";")) } }
            try await group.waitForAll()
        }
        #expect(try await TroubleTests.numbers(in: servers[0]).map(\.count) == [20, 20, 20, 20])
    }
}

// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestPostgres

@testable import LedgerPostgres

/// Makes a database look as if it had Citus with two nodes, as far as distributing tables goes. Everything stays on one
/// node, and another one can be made to refuse writes.
///
/// Its functions check what Citus 13 checks: each unique index of a table contains the column by which it is
/// distributed, a table is distributed once, and one that is to be with another table is not distributed before it.
enum CitusStandIn {
    static func install(in database: TestDatabase, isCoordinator: Bool = true) throws {
        try database.psql(sql)
        if !isCoordinator {
            try database.psql(
                "CREATE OR REPLACE FUNCTION citus_is_coordinator() RETURNS boolean LANGUAGE sql AS 'SELECT false'")
        }
    }

    /// Lets one of the nodes 1 and 2 take no more writes, which fail as those of Citus do. Reads go on.
    static func stop(_ node: Int, in database: TestDatabase) throws {
        let trigger = "BEFORE INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION refuse(\(node))"
        try database.psql(triggers("CREATE TRIGGER stopped_\(node) \(trigger)"))
    }

    /// Lets a node that was stopped take writes again.
    static func start(_ node: Int, in database: TestDatabase) throws {
        try database.psql(triggers("DROP TRIGGER stopped_\(node) ON %s"))
    }

    private static func triggers(_ statement: String) -> String {
        """
        DO $$ DECLARE t regclass; BEGIN
            FOR t IN SELECT logicalrelid FROM pg_dist_partition WHERE partmethod = 'hash' LOOP
                EXECUTE format('\(statement)', t);
            END LOOP;
        END $$
        """
    }

    /// The node of a home.
    static func node(of home: String, in database: TestDatabase) throws -> String {
        try database.psql("SELECT node_of('\(home)')")
    }

    private static let sql = #"""
        SET allow_system_table_mods = on;
        INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
            VALUES (99999, 'citus', 10, 'pg_catalog'::regnamespace, false, '13.2.2');
        SET allow_system_table_mods = off;
        CREATE TABLE pg_dist_partition (
            logicalrelid regclass PRIMARY KEY, partmethod text, key text, "with" text);
        CREATE FUNCTION citus_is_coordinator() RETURNS boolean LANGUAGE sql AS 'SELECT true';
        CREATE FUNCTION distribute(t regclass, method text, col text, other text) RETURNS void LANGUAGE plpgsql AS $$
        BEGIN
            IF EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = t) THEN
                RAISE EXCEPTION 'table "%" is already distributed', t USING ERRCODE = '42P16';
            END IF;
            IF other <> 'none' AND NOT EXISTS (
                SELECT FROM pg_dist_partition WHERE logicalrelid = other::regclass AND partmethod = method)
            THEN RAISE EXCEPTION 'cannot colocate tables % and %', t, other; END IF;
            IF col IS NOT NULL AND EXISTS (
                SELECT FROM pg_index WHERE indrelid = t AND indisunique AND NOT (
                    SELECT attnum FROM pg_attribute WHERE attrelid = t AND attname = col) = ANY (indkey))
            THEN RAISE EXCEPTION 'cannot create constraint on "%"', t USING ERRCODE = '0A000'; END IF;
            INSERT INTO pg_dist_partition VALUES (t, method, col, other);
        END $$;
        CREATE FUNCTION create_distributed_table(
            table_name regclass, distribution_column text, distribution_type text DEFAULT 'hash',
            colocate_with text DEFAULT 'default')
        RETURNS void LANGUAGE sql AS $$
            SELECT distribute(table_name, CASE WHEN distribution_column IS NULL THEN 'one' ELSE 'hash' END,
                              distribution_column, colocate_with)
        $$;
        CREATE TABLE pg_dist_node (groupid int, nodename text, nodeport int, noderole text);
        INSERT INTO pg_dist_node VALUES (1, 'worker-1', 5432, 'primary'), (2, 'worker-2', 5432, 'primary');
        CREATE TABLE pg_dist_placement (shardid bigint, groupid int);
        INSERT INTO pg_dist_placement SELECT 102008 + n, 1 + n % 2 FROM generate_series(0, 31) AS n;
        CREATE FUNCTION get_shard_id_for_distribution_column(table_name regclass, value text)
        RETURNS bigint LANGUAGE sql AS 'SELECT 102008::bigint + (hashtext(value) & 31)';
        CREATE FUNCTION node_of(home text) RETURNS int LANGUAGE sql AS $$
            SELECT groupid FROM public.pg_dist_placement
            WHERE shardid = public.get_shard_id_for_distribution_column(NULL, home)
        $$;
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF public.node_of(NEW.home) = TG_ARGV[0]::int THEN
                RAISE EXCEPTION 'connection to the remote node worker-%:5432 failed', TG_ARGV[0]
                    USING ERRCODE = '08006';
            END IF;
            RETURN NEW;
        END $$;
        CREATE TABLE pg_dist_object (objid oid PRIMARY KEY);
        CREATE FUNCTION create_distributed_function(
            function_name regprocedure, distribution_arg_name text DEFAULT NULL, colocate_with text DEFAULT 'default')
        RETURNS void LANGUAGE sql AS $$
            INSERT INTO pg_dist_object VALUES (function_name) ON CONFLICT DO NOTHING
        $$;
        CREATE FUNCTION create_reference_table(table_name regclass) RETURNS void LANGUAGE sql AS $$
            SELECT distribute(table_name, 'all', NULL, 'none')
        $$;
        """#
}

/// What Citus does with a statement, by its documentation, its own tests, and the remote commands that it logged for
/// the statements of a ledger. It is not run here.
struct CitusPlan {
    private let statement: String
    private let tables: Set<String>

    init(_ statement: String) {
        self.statement = statement.replacing(#/\s+/#, with: " ")
        tables = Set(
            self.statement.matches(of: #/\b(?:FROM|JOIN|INTO|UPDATE) (?:quittance\.)?(\w+)/#).map { String($0.1) })
    }

    private var spread: Set<String> { tables.intersection(Distribution.distributed) }

    /// Whether it writes a table of which each node has a copy: that locks the table, and is a two-phase commit of all
    /// nodes.
    private var isOnAllNodes: Bool {
        let written = statement.matches(of: #/\b(?:INTO|UPDATE|DELETE FROM) (?:quittance\.)?(\w+)/#)
        return written.contains { Distribution.copied.contains(String($0.1)) }
    }

    /// Whether it is about rows of one node, or reads a table that is there as a whole. Otherwise Citus sends a command
    /// for each shard, of which there are 32 by default.
    var isOnOneNode: Bool {
        guard !spread.isEmpty else { return !isOnAllNodes }
        let isInsert = statement.contains(#/INSERT INTO [\w.]+ (AS \w+ )?\([^)]*\bhome\b[^)]*\) VALUES/#)
        return spread.count == 1 && !isOnAllNodes && (isInsert || statement.contains(#/\bhome = \$/#))
    }

    /// Why Citus refuses it; `nil` if nothing is known that it refuses.
    var refusal: String? {
        if statement.contains("ctid") { return "ctid" }
        if statement.contains("LATERAL") { return "LATERAL" }
        if statement.contains(#/FOR (SHARE|UPDATE)/#), !isOnOneNode { return "it locks rows of several nodes" }
        let all = spread.union(tables.intersection(Distribution.together))
        let mayJoin = statement.contains("MATERIALIZED") || statement.contains("NOT EXISTS (SELECT $")
        if all.count > 1, !mayJoin { return "it joins \(all.sorted().joined(separator: " and "))" }
        if statement.contains(#/INSERT INTO quittance\.pieces/#) { return "each writer waits for all others" }
        return nil
    }
}

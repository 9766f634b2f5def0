// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestPostgres

@testable import LedgerPostgres

/// Makes a database look as if it had Citus, as far as distributing tables goes. Everything stays on one node.
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
        CREATE FUNCTION create_reference_table(table_name regclass) RETURNS void LANGUAGE sql AS $$
            SELECT distribute(table_name, 'all', NULL, 'none')
        $$;
        """#
}

/// What Citus does with a statement, by its documentation and its own tests. It is not run here.
struct CitusPlan {
    private let statement: String
    private let tables: Set<String>

    init(_ statement: String) {
        self.statement = statement.replacing(#/\s+/#, with: " ")
        tables = Set(
            self.statement.matches(of: #/\b(?:FROM|JOIN|INTO|UPDATE) (?:quittance\.)?(\w+)/#).map { String($0.1) })
    }

    private var spread: Set<String> { tables.intersection(Distribution.distributed) }

    /// Whether it is about rows of one node, or about a table that is there as a whole.
    var isOnOneNode: Bool {
        guard !spread.isEmpty else { return true }
        let isInsert = statement.contains(#/INSERT INTO [\w.]+ (AS \w+ )?\([^)]*\bhome\b[^)]*\) VALUES/#)
        return spread.count == 1 && (isInsert || statement.contains(#/\bhome = \$/#))
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

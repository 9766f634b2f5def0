// SPDX-License-Identifier: Apache-2.0

public import PurchaseLedger

// The report on a ledger's database for its operator: settings, and the tables for the documents of each calendar
// quarter.

extension PostgresLedgerStorage {
    /// Reads the identity of the database, its settings, and the list of calendar quarters that have a table for
    /// documents.
    public func report() async throws -> StorageReport {
        try await translated {
            let answers = try await self.requests.read([Self.serverFacts, Self.quarterFacts])
            let server = try answers[0].map { (try $0.next(String.self), try $0.next(String.self)) }
            guard let quarters = try answers[1].map({ try QuarterFacts(&$0) }).first else {
                throw LedgerStorageError(.unavailable, "The database does not give its description")
            }
            var report = StorageReport(
                Dictionary(server) { first, _ in first }, quarters, self.requests.pool.session ?? DatabaseSession())
            if !self.showsIdentity {
                report.warnings.append(
                    "The database does not say which one it is: run quittance restore --new-epoch after each failover")
            }
            // If the role may not read the identity, the database refuses the query, and the report has no identity.
            let identity = DatabaseIdentity.read(try? await self.requests.read(DatabaseIdentity.statement))?.identity
            report.identity = identity.map { "\($0) \(self.requests.pool.schema)" }
            return report
        }
    }

    /// The settings by name, the name of the role, and the number of connected standbys.
    private static let serverFacts = PostgresStatement.once(
        """
        SELECT name, current_setting(name) FROM unnest(ARRAY['server_version', 'synchronous_commit',
            'synchronous_standby_names', 'statement_timeout', 'fsync', 'full_page_writes']) AS name
        UNION ALL SELECT 'role', current_user::text
        UNION ALL SELECT 'standbys', count(*)::text FROM pg_stat_replication
        UNION ALL SELECT 'refusal', CASE WHEN pg_is_in_recovery() THEN 'The database is a standby.'
            WHEN current_setting('default_transaction_read_only') = 'on' THEN 'default_transaction_read_only is on.'
            WHEN NOT has_table_privilege('quittance.records', 'INSERT') THEN 'The role may not write the tables.'
            ELSE '' END
        """)

    private static let quarterFacts = PostgresStatement.once(
        """
        SELECT coalesce(string_agg(substr(relname, 11), ' ' ORDER BY relname), ''),
            coalesce(max(substr(relname, 11)), ''),
            to_char(date_trunc('quarter', now() AT TIME ZONE 'UTC') + interval '3 months', 'YYYY"q"Q'),
            (SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'quittance.documents'::regclass)
        FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
        WHERE inhparent = 'quittance.documents'::regclass AND relname ~ '^documents_[0-9]{4}q[1-4]$'
        """)
}

private struct QuarterFacts {
    /// The calendar quarters with a table, such as `2026q4`, separated by spaces; the last of these quarters; and the
    /// quarter after the current one.
    let all, last, next: String
    /// Whether the role may add tables.
    let mayAdd: Bool

    init(_ row: inout PostgresRow) throws {
        all = try row.next()
        last = try row.next()
        next = try row.next()
        mayAdd = try row.next()
    }
}

extension StorageReport {
    fileprivate init(_ server: [String: String], _ quarters: QuarterFacts, _ session: DatabaseSession) {
        self.init()
        func fact(_ name: String, or none: String = "none") -> String {
            server[name].flatMap { ["", "0"].contains($0) ? nil : $0 } ?? none
        }
        facts = [
            ("postgresql", fact("server_version")), ("role", fact("role")), ("tls", session.encryption ?? "none"),
            ("pooler", session.isPooled ? "yes" : "no"), ("synchronousCommit", fact("synchronous_commit")),
            ("standbys", fact("standbys", or: "0")), ("synchronousStandbys", fact("synchronous_standby_names")),
            ("statementTimeout", fact("statement_timeout")),
            ("quarters", quarters.all.isEmpty ? "none" : quarters.all),
        ]
        writeRefusal = server["refusal"].flatMap { $0.isEmpty ? nil : $0 }
        warn(about: server, session)
        if quarters.last < quarters.next, !quarters.mayAdd {
            warnings.append(
                """
                The tables for the documents of \(quarters.next) are missing, and the role may not add them: run \
                quittance migrate as the owner
                """)
        }
    }

    private mutating func warn(about server: [String: String], _ session: DatabaseSession) {
        if session.isPooled, server["statement_timeout"] == "0" {
            warnings.append(
                """
                The database is behind a pooler, and the role has no statement_timeout: what hangs keeps its session. \
                Run ALTER ROLE \(server["role"] ?? "") SET statement_timeout = '9s'
                """)
        }
        if server["synchronous_commit"] == "off" {
            warnings.append("synchronous_commit is off: a crash of PostgreSQL loses purchases that were answered 200")
        }
        if server["fsync"] == "off" || server["full_page_writes"] == "off" {
            warnings.append("fsync or full_page_writes is off: a power failure may destroy the database")
        }
        guard server["synchronous_standby_names"]?.isEmpty == false else { return }
        if server["standbys"] == "0" {
            warnings.append(
                "Commits wait for a synchronous standby, and no standby is connected: intakes are answered 503")
        }
        if server["synchronous_commit"] == "local" {
            warnings.append("synchronous_commit is local: a failover may lose purchases that were answered 200")
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

public import PurchaseLedger

// What an operator should know of a ledger's database: its settings, and the tables of quarters.

extension PostgresLedgerStorage {
    /// Asks the database which one it is, about its settings and about the tables of quarters.
    public func report() async throws -> StorageReport {
        try await translated {
            let answers = try await self.requests.read([Self.serverFacts, Self.quarterFacts])
            guard let server = try answers[0].map({ try ServerFacts(&$0) }).first,
                let quarters = try answers[1].map({ try QuarterFacts(&$0) }).first
            else { throw LedgerStorageError(.unavailable, "The database does not describe itself") }
            var report = StorageReport(server, quarters, self.requests.pool.session ?? DatabaseSession())
            if !self.showsIdentity {
                report.warnings.append(
                    "The database does not say which one it is: run quittance restore --new-epoch after each failover")
            }
            // A role that may not ask gets an error.
            let identity = DatabaseIdentity.read(try? await self.requests.read(DatabaseIdentity.statement))?.identity
            report.identity = identity.map { "\($0) \(self.requests.pool.schema)" }
            return report
        }
    }

    private static let serverFacts = PostgresStatement.once(
        """
        SELECT current_setting('server_version'), current_user::text, current_setting('synchronous_commit'),
            current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication),
            current_setting('statement_timeout'), current_setting('fsync'), current_setting('full_page_writes')
        """)

    private static let quarterFacts = PostgresStatement.once(
        """
        SELECT coalesce(string_agg(substr(relname, 11), ' ' ORDER BY relname), ''),
            coalesce(max(substr(relname, 11)), ''),
            to_char(date_trunc('quarter', now() AT TIME ZONE 'UTC') + interval '3 months', 'YYYY"q"Q'),
            (SELECT has_quarters FROM quittance.retention), (SELECT pg_has_role(relowner, 'USAGE') FROM pg_class
                WHERE oid = 'quittance.documents'::regclass)
        FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
        WHERE inhparent = 'quittance.documents'::regclass AND relname ~ '^documents_[0-9]{4}q[1-4]$'
        """)
}

private struct ServerFacts {
    let version, role, synchronousCommit, standbyNames: String
    /// How many are connected.
    let standbys: Int
    let statementTimeout, fsync, fullPageWrites: String

    init(_ row: inout PostgresRow) throws {
        version = try row.next()
        role = try row.next()
        synchronousCommit = try row.next()
        standbyNames = try row.next()
        standbys = try row.next()
        statementTimeout = try row.next()
        fsync = try row.next()
        fullPageWrites = try row.next()
    }
}

private struct QuarterFacts {
    /// The quarters that have a table of their own, with blanks between them; the last of them, and the quarter after
    /// the present one.
    let all, last, next: String
    /// Whether the ledger has tables for quarters.
    let areUsed: Bool
    /// Whether the role may add tables.
    let mayAdd: Bool

    init(_ row: inout PostgresRow) throws {
        all = try row.next()
        last = try row.next()
        next = try row.next()
        areUsed = try row.next()
        mayAdd = try row.next()
    }
}

extension StorageReport {
    fileprivate init(_ server: ServerFacts, _ quarters: QuarterFacts, _ session: DatabaseSession) {
        self.init()
        facts = [
            ("postgresql", server.version), ("role", server.role), ("tls", session.encryption ?? "none"),
            ("pooler", session.isPooled ? "yes" : "no"), ("synchronousCommit", server.synchronousCommit),
            ("standbys", "\(server.standbys)"),
            ("synchronousStandbys", server.standbyNames.isEmpty ? "none" : server.standbyNames),
            ("statementTimeout", server.statementTimeout == "0" ? "none" : server.statementTimeout),
            ("quarters", quarters.all.isEmpty ? "none" : quarters.all),
        ]
        warn(about: server, session)
        if quarters.areUsed, quarters.last < quarters.next, !quarters.mayAdd {
            warnings.append(
                """
                The tables for the documents of \(quarters.next) are missing, and the role may not add them: run \
                quittance migrate as the owner
                """)
        }
    }

    private mutating func warn(about server: ServerFacts, _ session: DatabaseSession) {
        if session.isPooled, server.statementTimeout == "0" {
            warnings.append(
                """
                The database is behind a pooler, and the role has no statement_timeout: what hangs keeps its session. \
                Run ALTER ROLE \(server.role) SET statement_timeout = '9s'
                """)
        }
        if server.synchronousCommit == "off" {
            warnings.append("synchronous_commit is off: a crash of PostgreSQL loses purchases that were answered 200")
        }
        if server.fsync == "off" || server.fullPageWrites == "off" {
            warnings.append("fsync or full_page_writes is off: a power failure may destroy the database")
        }
        if !server.standbyNames.isEmpty, server.standbys == 0 {
            warnings.append("Commits wait for a synchronous standby, and none is connected: intakes are answered 503")
        }
        if !server.standbyNames.isEmpty, server.synchronousCommit == "local" {
            warnings.append("synchronous_commit is local: a failover may lose purchases that were answered 200")
        }
    }
}

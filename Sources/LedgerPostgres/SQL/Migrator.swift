// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// Brings the tables up to date. Several servers may do so at once: the first one wins, and the others find it done.
struct Migrator {
    let pool: ConnectionPool
    /// The statements of each migration.
    var migrations = Schema.migrations

    /// How often to start again after another server was faster, or held a lock for too long.
    private static let attempts = 60

    /// How long a migration may take: long enough for an index of the largest table.
    static let limit = Duration.seconds(3600)

    /// - Throws: `LedgerStorageError`: `damaged` if the ledger is of a newer version.
    func migrate() async throws {
        for attempt in 1... {
            do {
                try await step()
                return await addQuarters()
            } catch let failure as PostgresFailure where attempt < Self.attempts && failure.isMigrationConflict {
                continue
            }
        }
    }

    /// - Throws: `LedgerStorageError` unless the ledger is of this version.
    func requireCurrent() async throws {
        let version = try await applied()
        guard version != migrations.count else { return }
        throw LedgerStorageError(
            .readOnly,
            version == nil
                ? "The ledger is missing: quittance serve makes it"
                : "The ledger is of an older version: quittance serve brings it up to date")
    }

    /// Whether documents may be stored in packed form.
    func packsDocuments() async throws -> Bool {
        let rows = try await pool.run(.transaction([.once("SELECT documents FROM forms WHERE id = 1")]))
        return try rows.first?.map { try $0.next(Int.self) }.first ?? 0 > 0
    }

    private func step() async throws {
        if try await applied() == nil {
            try await requireUnicode()
            _ = try await pool.run(.transaction(Self.versionTable.map { .once($0) }))
        }
        for version in (try await applied() ?? 0)..<migrations.count {
            let migration = migrations[version].map { PostgresStatement.once($0) }
            let statements = Self.timeouts + [Self.advance(from: version)] + migration
            _ = try await pool.run(.transaction(statements, limit: Self.limit))
        }
    }

    /// - Throws: `LedgerStorageError` if the database cannot store every text.
    private func requireUnicode() async throws {
        let rows = try await pool.run(.transaction([.once("SELECT current_setting('server_encoding')")]))
        guard let encoding = try rows.first?.map({ try $0.next(String.self) }).first, encoding != "UTF8" else { return }
        throw LedgerStorageError(
            .unavailable,
            "The database has the encoding \(encoding): make it with createdb --encoding UTF8 --template template0")
    }

    /// Adds tables for the documents of this quarter and the next one. If that fails, the next start does it: another
    /// server is faster or busy, the user does not own the tables, or this is not Citus's coordinator.
    private func addQuarters() async {
        guard migrations.count >= Schema.migrations.count else { return }
        _ = try? await pool.run(.transaction(Self.timeouts + [.once(Schema.quarters)]))
    }

    /// The number of migrations that the database has; `nil` if it has no ledger.
    ///
    /// - Throws: `LedgerStorageError` if there are more than this version knows, or their number is lost.
    private func applied() async throws -> Int? {
        let table = try await pool.run(.transaction([.once("SELECT to_regclass('schema_version')::text")]))
        guard try table.first?.map({ try $0.next(String?.self) }).first ?? nil != nil else { return nil }
        let rows = try await pool.run(.transaction([.once("SELECT version FROM schema_version")]))
        guard let version = try rows.first?.map({ try $0.next(Int.self) }).first else {
            throw LedgerStorageError(.damaged, "The ledger has lost its version: schema_version has no row")
        }
        guard version <= migrations.count else {
            throw LedgerStorageError(
                .damaged,
                "The ledger was written by a newer version of this software: it has \(version) migrations, "
                    + "and this version knows \(migrations.count)")
        }
        return max(0, version)
    }

    private static let versionTable = [
        "CREATE TABLE IF NOT EXISTS schema_version (id bigint PRIMARY KEY, version bigint NOT NULL)",
        "INSERT INTO schema_version (id, version) VALUES (1, 0) ON CONFLICT DO NOTHING",
    ]

    /// A migration gives way to a busy server, and tries again. It may take longer than an operator allows others.
    private static let timeouts = ["SET LOCAL lock_timeout = '2s'", "SET LOCAL statement_timeout = 0"]
        .map { PostgresStatement.once($0) }

    /// Fails with a division by zero if another server was faster.
    private static func advance(from version: Int) -> PostgresStatement {
        .once(
            """
            UPDATE schema_version SET version = CASE WHEN version = $1::bigint THEN $1::bigint + 1
                ELSE $1::bigint / (version - version) END
            """, [.integer(Int64(version))])
    }
}

extension PostgresFailure {
    /// Whether another server was faster, created a table at the same time, or held a lock.
    fileprivate var isMigrationConflict: Bool {
        guard case .refused(let state, _) = self else { return isWorthAnotherConnection }
        return isConflict || isWorthAnotherConnection || ["55P03", "42P07", "42710"].contains(state)
    }
}

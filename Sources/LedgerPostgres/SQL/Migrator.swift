// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// Takes the steps that the tables of a ledger lack. If several servers migrate at once, the first succeeds, and the
/// others then find the tables up to date.
struct Migrator {
    let pool: ConnectionPool
    var steps = Schema.steps

    /// The maximum number of attempts. An attempt fails if a different server migrates the ledger first, if a
    /// transaction holds a lock for too long, or if the connection is lost.
    private static let attempts = 60

    /// The pause after a lock timeout, during which other transactions may proceed.
    private static let pause = Duration.seconds(3)

    /// The timeout of a step, and of other requests about whole tables: long enough to rewrite every row of the
    /// largest table.
    static let limit = Duration.seconds(3600)

    /// - Throws: `LedgerStorageError`: `damaged` if no step leads on from the ledger's version, `readOnly` if the role
    ///   may not create or change the tables, `unavailable` if the database is unsuitable. `PostgresFailure` for all
    ///   other failures of the database.
    func migrate() async throws {
        for attempt in 1... {
            do {
                try await takeSteps()
                return await addQuarters()
            } catch let failure as PostgresFailure where attempt < Self.attempts && failure.isMigrationConflict {
                // During the pause, the transactions queued behind the lock of the attempt proceed.
                if failure.isTimeout { try await pool.clock.sleep(for: Self.pause) }
            } catch PostgresFailure.refused("42501", let message) {
                throw LedgerStorageError(
                    .readOnly,
                    "The role may not make or change the ledger's tables (\(message)): run quittance migrate as their "
                        + "owner, with --server-role if this role may not read the tables either")
            }
        }
    }

    /// The version of the ledger's tables; `nil` without a ledger.
    func version() async throws -> Int? {
        guard case .ledger(let version) = try await content() else { return nil }
        return version
    }

    /// - Throws: `LedgerStorageError` unless the ledger has the current version.
    func requireCurrent() async throws {
        switch try await content() {
        case .ledger(steps.version): return
        case .ledger:
            throw LedgerStorageError(
                .readOnly,
                "The ledger is of an older version: quittance serve, or quittance migrate as its owner, brings it up "
                    + "to date")
        case .nothing, .others:
            throw LedgerStorageError(.readOnly, "The ledger is missing: quittance serve makes it, or quittance migrate")
        }
    }

    private func takeSteps() async throws {
        let content = try await content()
        if case .nothing = content { try await requireUnicode() }
        for (version, step) in steps.missing(at: content.version) {
            let beginning =
                version == steps.baseline
                ? begin(exists: content == .nothing(exists: true)) : [Self.queue, Self.advance(to: version)]
            do {
                try await run((beginning + [Citus.sequential] + step.statements).map { .once($0) })
            } catch PostgresFailure.refused(let state, let message) {
                throw PostgresFailure.refused(
                    state: state, message: "\(message), in the step \(step.name) of the ledger's tables")
            }
        }
    }

    private func run(_ statements: [PostgresStatement]) async throws {
        _ = try await pool.run(.transaction(Self.timeouts + statements, limit: Self.limit))
    }

    /// - Throws: `LedgerStorageError` if the database cannot store every text.
    private func requireUnicode() async throws {
        let rows = try await pool.run(.transaction([.once("SELECT current_setting('server_encoding')")]))
        guard let encoding = try rows.first?.map({ try $0.next(String.self) }).first, encoding != "UTF8" else { return }
        throw LedgerStorageError(
            .unavailable,
            "The database has the encoding \(encoding): make it with createdb --encoding UTF8 --template template0")
    }

    /// Adds missing tables of documents, of which there is one for each calendar quarter, up to the next quarter. An
    /// attempt can fail because another server adds the tables first or holds a lock, because the role does not own the
    /// tables, or because the node is not Citus's coordinator. The migration then succeeds without the tables.
    private func addQuarters() async {
        // After a failure, the next start or the next ``PostgresLedgerStorage/prepare(at:)`` adds the tables.
        _ = try? await pool.run(.transaction(Self.timeouts + [Quarters.add()]))
    }

    /// The content of the schema.
    ///
    /// - Throws: `LedgerStorageError` if the schema has tables of other software, or a version from which no step leads
    ///   on.
    private func content() async throws -> SchemaContent {
        let found = try await SchemaContent.read(pool)
        switch found {
        case .nothing: return found
        case .ledger(let version):
            try steps.require(version)
            return found
        case .others:
            throw LedgerStorageError(
                .unavailable,
                "The schema \(pool.schema) of this database has tables of other software: add schema=NAME to the "
                    + "address, and the ledger's tables are made in that schema")
        }
    }

    /// Creates the schema if it does not exist, and the table with the ledger's version. The other tables are created
    /// in the same transaction. A lock makes concurrent servers wait for each other, and all but the first fail with a
    /// ``Conflict``, and then try again. Without the lock, they could fail because the name of the schema or of a table
    /// is taken. Such a failure is no conflict, so they would not try again.
    private func begin(exists: Bool) -> [String] {
        var texts = [
            Self.queue,
            Conflict.raised(if: "to_regclass('quittance.schema_version') IS NOT NULL"),
        ]
        if !exists { texts.append("CREATE SCHEMA \"\(pool.schema)\"") }
        texts += [
            """
            CREATE TABLE quittance.schema_version (
                id bigint PRIMARY KEY, version bigint NOT NULL, ledger text NOT NULL)
            """,
            """
            INSERT INTO quittance.schema_version (id, version, ledger)
            VALUES (1, \(steps.baseline), '\(LedgerSchema.marker)')
            """,
        ]
        return texts
    }

    /// Makes concurrent migrations wait for each other, before any of them has locked a table.
    ///
    /// The number is a random constant. Other software is unlikely to use the same lock number.
    private static let queue = "SELECT pg_advisory_xact_lock(7214370951830261735)::text"

    /// A change of the tables gives up its wait for a lock after two seconds, and is retried later. Meanwhile the
    /// statements of running servers, which queued behind the change, can proceed. The operator's statement timeout is
    /// lifted, because a change may take long.
    static let timeouts = ["SET LOCAL lock_timeout = '2s'", "SET LOCAL statement_timeout = 0"]
        .map { PostgresStatement.once($0) }

    /// Advances the version by a step. Raises a conflict if another server has taken the step first.
    private static func advance(to version: Int) -> String {
        let attempt = "UPDATE quittance.schema_version SET version = \(version) WHERE version = \(version - 1);"
        return Conflict.raised(after: attempt, if: "NOT FOUND")
    }
}

extension PostgresFailure {
    /// Whether another server has migrated the ledger first, a lock was not available, or the connection was lost.
    fileprivate var isMigrationConflict: Bool {
        guard case .refused(let state, _) = self else { return isWorthAnotherConnection }
        return isConflict || isWorthAnotherConnection || state == "55P03"
    }
}

// SPDX-License-Identifier: Apache-2.0

import GRDB
import PurchaseLedger

// The version of a ledger's tables: the steps that lead to it, and the look at it on an open connection.

extension Schema {
    /// Requires that a connection leads to a ledger that this software reads. A log may have a later step than the
    /// header of the file, so this look follows that of ``LedgerHeader``.
    ///
    /// - Parameter orHalf: Whether a ledger is accepted into which a copy from another ledger is not finished.
    /// - Throws: `LedgerStorageError`: `damaged`, or `unfinishedCopy`.
    static func requireLedger(_ connection: Database, orHalf: Bool = false) throws {
        guard let version = try version(connection) else { throw SQLiteErrors.damaged("The file is empty") }
        try steps.require(version)
        let session = SQLiteLedgerSession(connection, SQLiteLedgerSession.Cache())
        guard !orHalf, let copy = try session.record(UnfinishedCopy.key) else { return }
        throw LedgerStorageError(try UnfinishedCopy(copy))
    }

    /// The version of the tables; `nil` without tables.
    static func version(_ connection: Database) throws -> Int? {
        let version = try Int.fetchOne(connection, sql: "PRAGMA user_version") ?? 0
        return version == 0 ? nil : version
    }

    /// Takes the steps that a ledger lacks, each in one transaction.
    static func migrate(_ connection: Database, _ steps: SchemaSteps = Schema.steps) throws {
        for (version, step) in steps.missing(at: try Self.version(connection)) {
            do {
                try connection.inTransaction(.exclusive) {
                    // Another process may have taken the step meanwhile.
                    guard try Self.version(connection) ?? .min < version else { return .rollback }
                    for statement in step.statements { try connection.execute(sql: statement) }
                    try connection.execute(
                        sql: "PRAGMA application_id = \(applicationID); PRAGMA user_version = \(version)")
                    return .commit
                }
            } catch {
                let error = SQLiteErrors.storageError(error)
                throw LedgerStorageError(
                    error.code, "The step \(step.name) of the ledger's tables failed: \(error.message)",
                    isPassing: error.isPassing)
            }
        }
    }
}

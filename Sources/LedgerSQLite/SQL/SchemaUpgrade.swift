// SPDX-License-Identifier: Apache-2.0

import GRDB
import PurchaseLedger

// The versions of a ledger file's tables: the current version, which new ledgers have, and the previous version, which
// can be upgraded. GRDB stores the names of the migration steps that a file has taken.

extension Schema {
    /// A step name that every ledger keeps. The previous version of this software recognises a ledger by it. Without
    /// the name, the previous version would not report that the ledger is newer, but that the file is no ledger.
    private static let mark = "016 tables"

    /// The step names that identify a file as a ledger of any version.
    private static let marks: Set = ["001 evidence", mark]

    /// The steps that a file of the upgradable version has taken.
    private static let upgradable: Set = [
        mark, "017 offers and commitments", "018 jobs", "019 consent", "020 claimants", "021 epochs",
        "022 reports of a clock that is ahead", "023 wordings", "024 unfinished copy",
    ]

    /// The step of this version. Names begin with a number of three digits. A version of the software refuses a file
    /// with a step of a higher number than its own.
    private static let current = "025 tables"

    /// Creates the tables of a new ledger, or upgrades an older ledger's tables, in one transaction.
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration(current, merging: upgradable.subtracting([mark])) { connection, applied in
            if applied.isEmpty {
                try connection.execute(sql: tables)
                try connection.execute(sql: "INSERT INTO grdb_migrations (identifier) VALUES (?)", arguments: [mark])
            } else {
                try upgrade(connection)
            }
        }
        return migrator
    }

    /// Upgrades the tables and rows of the upgradable version to the tables of a new ledger.
    private static func upgrade(_ connection: Database) throws {
        try connection.execute(sql: records + RecordUpgrade.statements)
        try EventUpgrade.run(connection)
    }

    /// Requires that a database is a readable ledger. Called each time a file is opened.
    ///
    /// - Parameters:
    ///   - orNone: Whether a database without any tables is accepted.
    ///   - orHalf: Whether a ledger is accepted into which a copy from another ledger is not finished.
    /// - Throws: `LedgerStorageError`: `damaged` if the database is no ledger, or of an unreadable version;
    ///   `unfinishedCopy` if the ledger is an unfinished copy.
    static func requireLedger(_ connection: Database, orNone: Bool = false, orHalf: Bool = false) throws {
        let applied = try migrator.appliedIdentifiers(connection)
        guard applied.isDisjoint(with: marks) else {
            try requireVersion(applied)
            guard !orHalf, let copy = try unfinishedCopy(connection, isOld: !applied.contains(current)) else { return }
            throw LedgerStorageError(copy)
        }
        // If the creation of a ledger was interrupted, the file has only GRDB's own table.
        let tables = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name <> 'grdb_migrations'"
        guard orNone, try Int.fetchOne(connection, sql: tables) == 0 else {
            throw SQLiteErrors.damaged("This is a database, but no ledger")
        }
    }

    /// - Parameter isOld: Whether the file has the tables of the upgradable version, in which the note of an unfinished
    ///   copy has its own table.
    private static func unfinishedCopy(_ connection: Database, isOld: Bool) throws -> UnfinishedCopy? {
        let session = SQLiteLedgerSession(connection, SQLiteLedgerSession.Cache())
        guard isOld else { return try session.record(UnfinishedCopy.key).map { try UnfinishedCopy($0) } }
        return try session.first("SELECT source, beganAt FROM unfinishedCopy", []) {
            UnfinishedCopy(source: try $0.next(), beganAt: try $0.next())
        }
    }

    private static func requireVersion(_ applied: Set<String>) throws {
        guard applied != upgradable, applied != [mark, current] else { return }
        guard let last = applied.max(), last < current else {
            throw SQLiteErrors.damaged("The ledger was written by a newer version of this software")
        }
        throw SQLiteErrors.damaged(
            "The ledger was written by a development version of this software: no other version reads the ledger")
    }
}

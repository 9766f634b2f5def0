// SPDX-License-Identifier: Apache-2.0

import GRDB
import PurchaseLedger

// The versions of a file's tables: the current version of new ledgers, and the older version that can be upgraded. GRDB
// stores the names of the migration steps that a file has taken.

extension Schema {
    /// A step name that every ledger keeps. Without it, the previous version of this software would take the file for a
    /// database of other software, instead of reporting a newer ledger.
    private static let mark = "016 tables"

    /// The step names that identify a file as a ledger of any version.
    private static let marks: Set = ["001 evidence", mark]

    /// The steps that created the tables of the upgradable version.
    private static let upgradable: Set = [
        mark, "017 offers and commitments", "018 jobs", "019 consent", "020 claimants", "021 epochs",
        "022 reports of a clock that is ahead", "023 wordings", "024 unfinished copy",
    ]

    /// The step of this version. Names begin with a number of three digits. A version refuses a file with a higher
    /// number.
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
    ///   - orHalf: Whether an unfinished copy is accepted.
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

    /// - Parameter isOld: Whether the note is in a table of the upgradable version.
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
            "The ledger was written by a development version of this software, which no other version reads")
    }
}

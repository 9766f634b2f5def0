// SPDX-License-Identifier: Apache-2.0

import GRDB
import PurchaseLedger

// The versions of a ledger file's tables: the current version, which new ledgers have, and the versions that can be
// upgraded. GRDB stores the names of the migration steps that a file has taken.

extension Schema {
    /// A step name that every ledger keeps. The previous version of this software recognises a ledger by it. Without
    /// the name, the previous version would not report that the ledger is newer, but that the file is no ledger.
    private static let mark = "016 tables"

    /// The step names that identify a file as a ledger of any version.
    private static let marks: Set = ["001 evidence", mark]

    /// The steps that a file without the table `records` has taken.
    private static let withoutRecords: Set = [
        mark, "017 offers and commitments", "018 jobs", "019 consent", "020 claimants", "021 epochs",
        "022 reports of a clock that is ahead", "023 wordings", "024 unfinished copy",
    ]

    /// The step of the previous version, in which `columns` are missing.
    private static let previous = "025 tables"

    /// The step of this version. Names begin with a number of three digits. A version of the software refuses a file
    /// with a step of a higher number than its own.
    private static let current = "026 tables"

    /// Creates the tables of a new ledger, or upgrades an older ledger's tables, in one transaction.
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        let older = withoutRecords.union([previous]).subtracting([mark])
        migrator.registerMigration(current, merging: older) { connection, applied in
            if applied.isEmpty {
                try connection.execute(sql: tables)
                try connection.execute(sql: "INSERT INTO grdb_migrations (identifier) VALUES (?)", arguments: [mark])
            } else {
                if !applied.contains(previous) { try addRecords(connection) }
                try connection.execute(sql: columns)
            }
        }
        return migrator
    }

    /// Upgrades the tables and rows of a file without the table `records` to those of the previous version.
    private static func addRecords(_ connection: Database) throws {
        try connection.execute(sql: records + RecordUpgrade.statements)
        try EventUpgrade.run(connection)
    }

    /// The columns that the previous version lacks, and the view that reads dates of receipts in another way.
    private static let columns = """
        ALTER TABLE chains ADD COLUMN publishedEntitlements TEXT;
        ALTER TABLE chains ADD COLUMN publishedDetails INTEGER;
        ALTER TABLE chains ADD COLUMN deniedAt INTEGER;
        ALTER TABLE chains ADD COLUMN deniedBecause TEXT;
        ALTER TABLE customers ADD COLUMN grants BLOB;
        """
        + ["statements", "residue"].map { table in
            """
            ALTER TABLE \(table) ADD COLUMN originalApplicationVersion TEXT;
            ALTER TABLE \(table) ADD COLUMN originalPlatform TEXT;
            ALTER TABLE \(table) ADD COLUMN receiptType TEXT;
            """
        }.joined() + "DROP VIEW periods;" + periods

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
            guard !orHalf, let copy = try unfinishedCopy(connection, isOld: applied == withoutRecords) else { return }
            throw LedgerStorageError(copy)
        }
        // If the creation of a ledger was interrupted, the file has only GRDB's own table.
        let tables = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name <> 'grdb_migrations'"
        guard orNone, try Int.fetchOne(connection, sql: tables) == 0 else {
            throw SQLiteErrors.damaged("This is a database, but no ledger")
        }
    }

    /// - Parameter isOld: Whether the file has no table `records`. A table of its own then has the note of the copy.
    private static func unfinishedCopy(_ connection: Database, isOld: Bool) throws -> UnfinishedCopy? {
        let session = SQLiteLedgerSession(connection, SQLiteLedgerSession.Cache())
        guard isOld else { return try session.record(UnfinishedCopy.key).map { try UnfinishedCopy($0) } }
        return try session.first("SELECT source, beganAt FROM unfinishedCopy", []) {
            UnfinishedCopy(source: try $0.next(), beganAt: try $0.next())
        }
    }

    private static func requireVersion(_ applied: Set<String>) throws {
        guard ![withoutRecords, [mark, previous], [mark, current]].contains(applied) else { return }
        guard let last = applied.max(), last < current else {
            throw SQLiteErrors.damaged("The ledger was written by a newer version of this software")
        }
        throw SQLiteErrors.damaged(
            "The ledger was written by a development version of this software: no other version reads the ledger")
    }
}

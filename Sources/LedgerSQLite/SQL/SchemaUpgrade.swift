// SPDX-License-Identifier: Apache-2.0

import GRDB
import PurchaseLedger

// The versions of a file's tables: which one a new ledger gets, and which one is upgraded to it.

extension Schema {
    /// The name that a ledger keeps. Without it, the version before would take the file for another program's database.
    private static let mark = "016 tables"

    /// The names by which a file is known to be a ledger, of any version.
    private static let marks: Set = ["001 evidence", mark]

    /// The steps in which the version that can be upgraded made its tables.
    private static let upgradable: Set = [
        mark, "017 offers and commitments", "018 jobs", "019 consent", "020 claimants", "021 epochs",
        "022 reports of a clock that is ahead", "023 wordings", "024 unfinished copy",
    ]

    /// The step of this version. Names begin with a number of three digits: a version refuses a file that has a higher
    /// number than its own.
    private static let current = "025 tables"

    /// Makes the tables of a new ledger, or upgrades those of an older one, in one transaction.
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

    /// Changes the tables of the version that can be upgraded, and their rows, to those of a new ledger.
    private static func upgrade(_ connection: Database) throws {
        try connection.execute(sql: records + RecordUpgrade.statements)
        try EventUpgrade.run(connection)
    }

    /// Every way to open a file passes here.
    ///
    /// - Parameters:
    ///   - orNone: Whether a database without any tables is accepted.
    ///   - orHalf: Whether half a copy is accepted.
    /// - Throws: `LedgerStorageError`: `damaged` if it is no ledger, or of a version that cannot be read;
    ///   `unfinishedCopy`.
    static func requireLedger(_ connection: Database, orNone: Bool = false, orHalf: Bool = false) throws {
        let applied = try migrator.appliedIdentifiers(connection)
        guard applied.isDisjoint(with: marks) else {
            try requireVersion(applied)
            guard !orHalf, let copy = try unfinishedCopy(connection, isOld: !applied.contains(current)) else { return }
            throw LedgerStorageError(copy)
        }
        // A ledger has only GRDB's own table if its creation was interrupted.
        let tables = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name <> 'grdb_migrations'"
        guard orNone, try Int.fetchOne(connection, sql: tables) == 0 else {
            throw SQLiteErrors.damaged("This is a database, but no ledger")
        }
    }

    /// - Parameter isOld: Whether the note is in the table of the version that can be upgraded.
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

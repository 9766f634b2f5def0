// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import GRDB
import PurchaseLedger

/// Copies a ledger into one file, even while a server writes the ledger.
public enum SQLiteLedgerBackup {
    /// The number of pages copied between two progress reports: 16 MiB.
    private static let step: Int32 = 4096

    /// Copies a snapshot of a ledger: all commits before the copy begins, and no later commit.
    ///
    /// All pages are read in one transaction. `sqlite3 .backup` instead reads each part in a transaction of its own,
    /// and must start again after each write to the ledger. The ledger itself is not changed.
    ///
    /// - Parameters:
    ///   - source: The path of the ledger.
    ///   - target: The path of an empty file. The caller creates the file, and thereby decides its permissions.
    ///   - now: The present time, for the event with which the copy begins its epoch.
    ///   - isRestore: Whether the copy becomes the ledger, and `source` is a backup.
    ///   - onProgress: Called with the number of bytes copied so far and the total number of bytes. If `onProgress`
    ///     throws an error, the copy ends.
    /// - Returns: The number of documents in the copied snapshot.
    /// - Throws: `LedgerStorageError`: `full` if the disk of the copy is full, `damaged` if `source` is no ledger.
    public static func copy(
        _ source: String, to target: String, at now: Timestamp, isRestore: Bool = false,
        onProgress: @escaping (_ copied: Int, _ total: Int) throws -> Void = { _, _ in }
    ) throws -> Int {
        do {
            let ledger = try open(source)
            let copy = try DatabaseQueue(path: target)
            let documents = try copy.writeWithoutTransaction { copy in
                // The copy needs neither a journal nor a flush, because the caller flushes a complete copy, and deletes
                // an incomplete copy.
                try copy.execute(sql: "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
                let documents = try ledger.read { ledger in
                    let documents = try count(ledger)
                    let size = try Int.fetchOne(ledger, sql: "PRAGMA page_size") ?? 0
                    try ledger.backup(to: copy, pagesPerStep: step) { progress in
                        try onProgress(progress.completedPageCount * size, progress.totalPageCount * size)
                    }
                    return documents
                }
                // The ledger's later events are not in the copy, and the copy will give their numbers to different
                // events. The copy therefore begins an epoch: a cursor also names its epoch, so that a cursor of the
                // ledger's later events is not taken for a cursor of the copy's events.
                if isRestore { try copy.execute(sql: Schema.forgetUnreadEpoch) }
                for statement in Schema.beginEpochs(at: now) { try copy.execute(sql: statement) }
                // The copied header asks for WAL mode, in which opening the backup would create files beside it.
                try copy.execute(sql: "PRAGMA journal_mode = DELETE")
                return documents
            }
            try copy.close()
            try ledger.close()
            return documents
        } catch {
            throw SQLiteErrors.translate(error)
        }
    }

    /// Checks a copy as ``SQLiteLedgerStorage/faults()`` does, and compares its number of documents with `documents`.
    /// The signatures of the documents are not checked here: see `Ledger.check`.
    ///
    /// - Returns: A sentence per fault.
    /// - Throws: `LedgerStorageError` if the copy cannot be opened.
    public static func faults(_ path: String, documents: Int) throws -> [String] {
        do {
            let copy = try open(path)
            let faults = try copy.read { copy in
                let found = try count(copy)
                return SQLiteLedgerStorage.faults(copy)
                    + (found == documents ? [] : ["The number of documents is \(found) instead of \(documents)"])
            }
            try copy.close()
            return faults
        } catch {
            throw SQLiteErrors.translate(error)
        }
    }

    private static func open(_ path: String) throws -> DatabaseQueue {
        try LedgerFile.requirePlace(path)
        try LedgerHeader.require(path)
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(5)
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    private static func count(_ ledger: Database) throws -> Int {
        try Schema.requireLedger(ledger)
        return try Int.fetchOne(ledger, sql: "SELECT count(*) FROM documents") ?? 0
    }
}

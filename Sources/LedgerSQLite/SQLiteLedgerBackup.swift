// SPDX-License-Identifier: Apache-2.0

import GRDB
import PurchaseLedger

/// Copies a ledger into one file, even while a server writes it.
public enum SQLiteLedgerBackup {
    /// The pages that are copied between two reports of progress: 16 MiB.
    private static let step: Int32 = 4096

    /// Copies one state of a ledger: everything that was committed before this began, and nothing that is committed
    /// later.
    ///
    /// Reads all pages in one transaction. A copy that reads each part in a transaction of its own, as `sqlite3
    /// .backup` does, begins again whenever the ledger was written in between. The ledger itself is only read.
    ///
    /// - Parameters:
    ///   - source: The path of the ledger.
    ///   - target: The path of an empty file, so that the caller decides who may read it.
    ///   - onProgress: Called with the number of bytes that were copied, and with the total number. An error that it
    ///     throws ends the copy.
    /// - Returns: How many documents the ledger has in the state that was copied.
    /// - Throws: `LedgerStorageError`: `full` if the disk of the copy is full, `damaged` if `source` is no ledger.
    public static func copy(
        _ source: String, to target: String,
        onProgress: @escaping (_ copied: Int, _ total: Int) throws -> Void = { _, _ in }
    ) throws -> Int {
        do {
            let ledger = try open(source)
            let copy = try DatabaseQueue(path: target)
            let documents = try copy.writeWithoutTransaction { copy in
                // The caller flushes the copy once it is complete, and deletes it otherwise.
                try copy.execute(sql: "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
                let documents = try ledger.read { ledger in
                    let documents = try count(ledger)
                    let size = try Int.fetchOne(ledger, sql: "PRAGMA page_size") ?? 0
                    try ledger.backup(to: copy, pagesPerStep: step) { progress in
                        try onProgress(progress.completedPageCount * size, progress.totalPageCount * size)
                    }
                    return documents
                }
                // What the ledger commits from now on is not in the copy, which gives the same numbers to other events.
                for statement in Schema.beginEpochs { try copy.execute(sql: statement) }
                // The copied header says WAL mode. A backup is a single file.
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

    /// Checks a copy as ``SQLiteLedgerStorage/faults()`` does, and compares its number of documents. `Ledger.check`
    /// verifies the signatures.
    ///
    /// - Returns: A sentence for each fault.
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

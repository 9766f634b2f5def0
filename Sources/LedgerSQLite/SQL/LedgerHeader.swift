// SPDX-License-Identifier: Apache-2.0

import Foundation
import GRDBSQLite
import PurchaseLedger

/// The look at the header of a file, before SQLite reads the file.
///
/// SQLite recovers the log of a database, and makes files beside it, even if it is only asked to read. A file that is
/// no ledger of a release must stay as it is, so its header is read first.
enum LedgerHeader {
    private static let magic = Array("SQLite format 3\0".utf8)
    private static let size = 100

    /// Requires that a ledger, or a file in which a ledger can still be made, is at a path.
    ///
    /// - Returns: Whether the file has a ledger. It has none if it is missing or empty. If the log has a later step,
    ///   the version in the log counts, see ``Schema/requireLedger(_:orHalf:)``.
    /// - Throws: `LedgerStorageError`: `damaged` if no release wrote the file, or a newer version did;
    ///   `unavailable` if the file cannot be read.
    @discardableResult
    static func require(_ path: String) throws -> Bool {
        guard FileManager.default.fileExists(atPath: path) else { return false }
        let header = try read(path)
        // If the power fails while the first pages are written, zeros may be left in their place. SQLite then undoes
        // their transaction by its journal.
        if header.allSatisfy({ $0 == 0 }) { return false }
        guard header.count == size, header.starts(with: magic) else {
            throw SQLiteErrors.damaged("The file is no database")
        }
        // `application_id` and `user_version`, at their places in SQLite's file format.
        let (application, version) = header.withUnsafeBytes { ($0.word(68), $0.word(60)) }
        guard application == Schema.applicationID else {
            throw application == 0
                ? LedgerStorageError.unreleased("The file has the database of another program, or a ledger")
                : SQLiteErrors.damaged("The file has the database of another program, and no ledger")
        }
        try Schema.steps.require(Int(version))
        return true
    }

    /// Reads through SQLite's own handle, because closing any other handle would release the locks that SQLite has on
    /// the file in this process. Opening a connection reads nothing but the header, and locks nothing.
    private static func read(_ path: String) throws -> [UInt8] {
        var connection: OpaquePointer?
        defer { sqlite3_close(connection) }
        var file: UnsafeMutablePointer<sqlite3_file>?
        guard sqlite3_open_v2(path, &connection, SQLITE_OPEN_READONLY, nil) == SQLITE_OK,
            sqlite3_file_control(connection, "main", SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK,
            let file, let methods = file.pointee.pMethods
        else { throw unreadable(path) }
        var bytes: Int64 = 0
        guard methods.pointee.xFileSize(file, &bytes) == SQLITE_OK else { throw unreadable(path) }
        var header = [UInt8](repeating: 0, count: min(size, Int(clamping: bytes)))
        guard methods.pointee.xRead(file, &header, Int32(header.count), 0) == SQLITE_OK else { throw unreadable(path) }
        return header
    }

    private static func unreadable(_ path: String) -> LedgerStorageError {
        LedgerStorageError(.unavailable, "\(path) cannot be read: may this user read the file?")
    }
}

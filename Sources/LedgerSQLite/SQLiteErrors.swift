// SPDX-License-Identifier: Apache-2.0

import GRDB
import PurchaseLedger

/// Translates SQLite's errors into a ledger's errors.
enum SQLiteErrors {
    /// Translates an error of SQLite. Any other error, such as an error of the code that decides a write, stays
    /// unchanged.
    static func translate(_ error: any Error) -> any Error {
        (error as? DatabaseError).map(storageError) ?? error
    }

    /// Translates any error. An error that is neither SQLite's nor a `LedgerStorageError` becomes `unavailable`.
    static func storageError(_ error: any Error) -> LedgerStorageError {
        translate(error) as? LedgerStorageError ?? LedgerStorageError(.unavailable, "\(error)")
    }

    static func damaged(_ message: String) -> LedgerStorageError { LedgerStorageError(.damaged, message) }

    private static func storageError(_ error: DatabaseError) -> LedgerStorageError {
        let code: LedgerStorageError.Code =
            switch error.resultCode {
            case .SQLITE_FULL: .full
            case .SQLITE_READONLY: .readOnly
            case .SQLITE_CORRUPT, .SQLITE_NOTADB: .damaged
            default: .unavailable
            }
        let advice =
            error.resultCode == .SQLITE_CANTOPEN ? ": may this user read the file, and write in its folder?" : ""
        // Only a lock of another connection certainly passes. A disk error may stay, for example if the user's quota is
        // used up.
        let isPassing = [.SQLITE_BUSY, .SQLITE_LOCKED].contains(error.resultCode)
        // The error's own description would quote the SQL statement.
        return LedgerStorageError(
            code, "SQLite \(error.extendedResultCode.rawValue): \(error.message ?? "no message")\(advice)",
            isPassing: isPassing)
    }
}

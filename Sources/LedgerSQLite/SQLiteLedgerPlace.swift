// SPDX-License-Identifier: Apache-2.0

import Foundation
import PurchaseLedger

/// The place of a ledger's file, locked so that no server uses it while the file is replaced.
public final class SQLiteLedgerPlace {
    /// The path of the ledger. There may be no file.
    public let path: String
    private let lock: ServerLock

    /// What SQLite and this program keep beside a ledger, by the ends of their names. The journal of erasures, which
    /// outlives the ledger, is not among them.
    private static let files = ["", "-wal", "-shm"]

    /// - Throws: `LedgerStorageError.unavailable` if a server uses the ledger, or if there can be none at the path.
    public init(_ path: String) throws {
        self.path = URL(fileURLWithPath: path).resolvingSymlinksInPath().path
        try LedgerFile.requirePlace(self.path)
        lock = try ServerLock(self.path)
    }

    /// Why servers cannot be kept from the ledger; `nil` if they are.
    public var lockFailure: String? { lock.failure }

    /// Moves the ledger's files away, and puts another file in their place.
    ///
    /// - Parameters:
    ///   - new: The path of a closed ledger in the same folder.
    ///   - old: The path to which the ledger is moved.
    /// - Throws: `LedgerStorageError`. What was moved before stays where it is.
    public func replace(by new: String, movingTo old: String) throws {
        // The file first: a log beside no file is no ledger, but a file without its log is an older one.
        for ending in Self.files where FileManager.default.fileExists(atPath: path + ending) {
            try Self.move(path + ending, to: old + ending)
        }
        try Self.move(new, to: path)
    }

    /// Lets servers use the place.
    public func release() { lock.release() }

    private static func move(_ path: String, to target: String) throws {
        guard rename(path, target) == 0 else {
            let reason = String(cString: strerror(errno))
            throw LedgerStorageError(.unavailable, "\(path) cannot be renamed to \(target): \(reason)")
        }
    }
}

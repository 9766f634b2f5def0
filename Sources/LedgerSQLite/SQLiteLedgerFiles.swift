// SPDX-License-Identifier: Apache-2.0

import Foundation
import PurchaseLedger

/// The place of a ledger's file. A lock keeps servers from using the ledger while the file is replaced.
public final class SQLiteLedgerFiles {
    /// The path of the ledger. The file need not exist.
    public let path: String
    private let lock: ServerLock

    /// The endings of the names of a ledger's files: the ledger itself, SQLite's files beside the ledger, and the
    /// copies of damaged logs, which would otherwise be a concern of the new ledger. The journal of erasures is not
    /// listed: it stays when the ledger is replaced, so that the erasures can be repeated in a restored ledger.
    private static let files = ["", "-wal", "-shm"] + LedgerLog.copyEndings

    /// - Throws: `LedgerStorageError.unavailable` if a server uses the ledger, or if the path cannot be that of a
    ///   ledger.
    public init(_ path: String) throws {
        self.path = URL(fileURLWithPath: path).resolvingSymlinksInPath().path
        try LedgerFile.requirePlace(self.path)
        lock = try ServerLock(self.path)
    }

    /// Why servers cannot be locked out of the ledger; `nil` if servers are locked out.
    public var lockFailure: String? { lock.failure }

    /// A path to which a ledger can be moved without replacing any ledger: `path`, or `path` with a number appended.
    public func unusedPath(_ path: String) -> String {
        var candidate = path
        var number = 1
        while Self.files.contains(where: { FileManager.default.fileExists(atPath: candidate + $0) }) {
            number += 1
            candidate = "\(path)-\(number)"
        }
        return candidate
    }

    /// Moves the ledger's files away, and puts a new file in their place.
    ///
    /// The new file gets the owner and the group of the old file, if this process may change them.
    ///
    /// - Parameters:
    ///   - new: The path of a closed ledger in the same folder.
    ///   - old: The path to which the ledger is moved.
    /// - Throws: `LedgerStorageError` if a file cannot be renamed. The ledger's files are moved back first.
    public func replace(by new: String, movingTo old: String) throws {
        var moved: [String] = []
        var status = stat()
        if stat(path, &status) == 0 { _ = chown(new, status.st_uid, status.st_gid) }
        do {
            // The ledger's file is moved first. If the process is interrupted here, a log without its file is left,
            // which nobody takes for a ledger. In the reverse order, a file without its log could be left, which would
            // look like a whole but older ledger.
            for ending in Self.files where FileManager.default.fileExists(atPath: path + ending) {
                try Self.move(path + ending, to: old + ending)
                moved.append(ending)
            }
            try Self.move(new, to: path)
        } catch {
            for ending in moved.reversed() { try Self.move(old + ending, to: path + ending) }
            throw error
        }
    }

    /// Unlocks the place, so that servers can use the ledger again.
    public func release() { lock.release() }

    private static func move(_ path: String, to target: String) throws {
        guard rename(path, target) == 0 else {
            let reason = String(cString: strerror(errno))
            throw LedgerStorageError(.unavailable, "\(path) cannot be renamed to \(target): \(reason)")
        }
    }
}

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

    /// A path to which a ledger can be moved without replacing another: this one, or one with a number behind it.
    public func unusedPath(_ path: String) -> String {
        var candidate = path
        var number = 1
        while Self.files.contains(where: { FileManager.default.fileExists(atPath: candidate + $0) }) {
            number += 1
            candidate = "\(path)-\(number)"
        }
        return candidate
    }

    /// Moves the ledger's files away, and puts another file in their place.
    ///
    /// - Parameters:
    ///   - new: The path of a closed ledger in the same folder.
    ///   - old: The path to which the ledger is moved.
    /// The new file belongs to the owner of the old one, as far as this user may give it away.
    ///
    /// - Throws: `LedgerStorageError`. The ledger's files are where they were then.
    public func replace(by new: String, movingTo old: String) throws {
        var moved: [String] = []
        var status = stat()
        if stat(path, &status) == 0 { _ = chown(new, status.st_uid, status.st_gid) }
        do {
            // The file first: a log beside no file is no ledger, but a file without its log is an older one.
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

    /// Lets servers use the place.
    public func release() { lock.release() }

    private static func move(_ path: String, to target: String) throws {
        guard rename(path, target) == 0 else {
            let reason = String(cString: strerror(errno))
            throw LedgerStorageError(.unavailable, "\(path) cannot be renamed to \(target): \(reason)")
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import Foundation
import PurchaseLedger
import Synchronization

/// Detects whether the file of a ledger, or SQLite's write-ahead log beside it, was removed or replaced while open.
///
/// If an open file is removed or replaced, SQLite continues to write to the old file. No path leads to the old file any
/// more, so these writes are lost when SQLite closes it.
final class LedgerFile: Sendable {
    /// The identity of a file: its device and its node number. Writing to a file keeps them. A file that replaces it
    /// has a different identity.
    private struct Identity: Equatable {
        var device: UInt64
        var node: UInt64
    }

    /// The size of the log, in bytes, above which the operator is warned. The log's content is moved to the file about
    /// every 64 MiB, unless other processes still read an old snapshot.
    private static let usualLog = 1 << 30

    let path: String
    /// The path of the file without symbolic links, because SQLite keeps its own files beside the link's target.
    private let target: String
    /// The size of the file when it was opened.
    let bytes: Int
    private let file: Identity
    /// The identities of the log and its index, in this order; `nil` until both files were first seen.
    private let log = Mutex<[Identity]?>(nil)

    /// Checks a path for faults that SQLite would report only by number.
    ///
    /// - Throws: `LedgerStorageError` if no ledger can be at the path.
    static func requirePlace(_ path: String) throws {
        var isFolder: ObjCBool = false
        if FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) {
            guard !isFolder.boolValue else { throw unusable("\(path) is a folder: name a file in the folder") }
            guard access(path, R_OK) == 0 else { throw unusable("\(path) may not be read by this user") }
            return
        }
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
        guard FileManager.default.fileExists(atPath: folder, isDirectory: &isFolder), isFolder.boolValue else {
            throw unusable("There is no folder \(folder): make the folder, or name a different file")
        }
        guard access(folder, W_OK) == 0 else { throw unusable("This user may make no file in \(folder)") }
    }

    /// Creates an empty file that only its owner may read and write, regardless of the umask. An existing file stays
    /// unchanged. SQLite gives the log and its index the mode of the file.
    ///
    /// If the file cannot be created, SQLite reports the reason when it opens the path.
    static func createPrivately(_ path: String) {
        // Without O_EXCL, so that the target of a symbolic link is created too.
        guard status(path) == nil, case let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600), file >= 0 else {
            return
        }
        fchmod(file, 0o600)
        close(file)
    }

    /// The ledger's files that other users of the machine may read or write, each with its mode.
    static func exposed(_ path: String) -> [(path: String, mode: Int)] {
        ["", "-wal", "-shm"].compactMap { ending in
            var status = stat()
            guard stat(path + ending, &status) == 0, status.st_mode & 0o077 != 0 else { return nil }
            return (path + ending, Int(status.st_mode & 0o777))
        }
    }

    private static func unusable(_ message: String) -> LedgerStorageError { LedgerStorageError(.unavailable, message) }

    /// Records the identity of the file at the path.
    ///
    /// - Throws: `LedgerStorageError` if the file does not exist.
    init(path: String) throws {
        self.path = path
        target = URL(fileURLWithPath: path).resolvingSymlinksInPath().path
        guard let status = Self.status(path) else { throw LedgerStorageError(.unavailable, "There is no file \(path)") }
        (file, bytes) = status
    }

    /// Requires that the path still leads to the same file.
    ///
    /// - Throws: `LedgerStorageError` if the path leads to no file or to a different file.
    func requireInPlace() throws {
        guard let found = Self.status(path)?.identity else { throw Self.missing(path) }
        guard found == file else { throw Self.replaced(path) }
    }

    /// Requires that the file, the log and the log's index are still in place. The log contains the latest writes, and
    /// processes lock the ledger by the index.
    func requireInPlaceWithLog() throws {
        try requireInPlace()
        let paths = [logPath, target + "-shm"]
        let found = try paths.map { path in
            guard let status = Self.status(path) else { throw Self.missing(path) }
            return status.identity
        }
        let expected = log.withLock { log in
            log = log ?? found
            return log ?? found
        }
        for (index, path) in paths.enumerated() where found[index] != expected[index] { throw Self.replaced(path) }
    }

    /// Whether permissions allow writing the file and its folder.
    var mayBeWritten: Bool {
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
        return access(path, W_OK) == 0 && access(folder, W_OK) == 0
    }

    /// A warning if the log is unusually long; `nil` otherwise.
    var concern: String? {
        guard let bytes = Self.status(logPath)?.bytes, bytes > Self.usualLog else { return nil }
        return "\(logPath) has \(bytes >> 20) MiB: a process reads an old state of the ledger and does not end"
    }

    private var logPath: String { target + "-wal" }

    private static func status(_ path: String) -> (identity: Identity, bytes: Int)? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return (
            Identity(device: UInt64(truncatingIfNeeded: status.st_dev), node: UInt64(status.st_ino)),
            Int(clamping: status.st_size)
        )
    }

    private static func missing(_ path: String) -> LedgerStorageError {
        LedgerStorageError(.unavailable, "\(path) is missing: put the file back, or stop the server")
    }

    private static func replaced(_ path: String) -> LedgerStorageError {
        LedgerStorageError(.unavailable, "\(path) was replaced while open: restart the server")
    }
}

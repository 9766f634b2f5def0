// SPDX-License-Identifier: Apache-2.0

import Foundation
import PurchaseLedger
import Synchronization

/// Keeps a second server from using a ledger: an exclusive `flock` of `FILE-lock`, a file beside the ledger.
///
/// The system releases the lock however the process ends. The lock file stays, but it is empty, because only the lock
/// counts: a process id in the file could be mistaken for a process in a different container.
///
/// The lock is not on the ledger's own file for two reasons. Closing a second descriptor of the ledger's file would
/// release all of SQLite's own locks (`fcntl`) in this process. NFS implements `flock` by `fcntl` locks, so the lock
/// would shut out SQLite itself. The lock does not affect commands that may run beside a server.
final class ServerLock: Sendable {
    /// Why the ledger is not locked: the file system has no locks, or the lock file cannot be created. `nil` if the
    /// ledger is locked.
    let failure: String?
    private let descriptor: Mutex<Int32?>

    /// - Parameter ledger: The path of the ledger. A symbolic link uses the lock of its target, like SQLite's own
    ///   files.
    /// - Throws: `LedgerStorageError` `unavailable` if a server already has the lock, or if the ledger's file has
    ///   several hard links.
    init(_ ledger: String) throws {
        try Self.requireOneName(ledger)
        let outcome = try Self.lock(URL(fileURLWithPath: ledger).resolvingSymlinksInPath().path + "-lock")
        failure = outcome.failure
        descriptor = Mutex(outcome.descriptor)
    }

    /// SQLite keeps a log beside each name of a file. Servers that open the file by different names (hard links)
    /// overwrite each other, and a lock by name does not notice.
    private static func requireOneName(_ ledger: String) throws {
        var status = stat()
        guard stat(ledger, &status) == 0, status.st_nlink > 1 else { return }
        throw LedgerStorageError(
            .unavailable,
            "The file has \(status.st_nlink) names (hard links), and servers that use it by different names would lose "
                + "writes: remove the other names (find -samefile \(ledger))")
    }

    private static func lock(_ path: String) throws -> (descriptor: Int32?, failure: String?) {
        let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0 else { return (nil, "\(path): \(String(cString: strerror(errno)))") }
        makeUsable(file)
        guard flock(file, LOCK_EX | LOCK_NB) != 0 else { return (file, nil) }
        let error = errno
        close(file)
        guard error != EWOULDBLOCK else {
            throw LedgerStorageError(
                .unavailable, "Another server uses this ledger: stop it first. fuser \(path) names its process")
        }
        return (nil, "\(path): \(String(cString: strerror(error)))")
    }

    /// The umask may have removed the owner's permissions, and the owner could then not open the lock file again.
    private static func makeUsable(_ file: Int32) {
        var status = stat()
        guard fstat(file, &status) == 0, status.st_mode & 0o600 != 0o600 else { return }
        fchmod(file, status.st_mode & 0o777 | 0o600)
    }

    deinit { release() }

    /// Unlocks the ledger, so that the next server can use the ledger.
    ///
    /// Closing the file would not always suffice. A child of this process holds copies of all open files until the
    /// child begins its program, and a copy holds the lock.
    func release() {
        let file = descriptor.withLock { file in
            defer { file = nil }
            return file
        }
        guard let file else { return }
        _ = flock(file, LOCK_UN)
        close(file)
    }
}

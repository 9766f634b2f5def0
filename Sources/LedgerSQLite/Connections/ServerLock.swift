// SPDX-License-Identifier: Apache-2.0

import Foundation
import PurchaseLedger
import Synchronization

/// Keeps a second server from a ledger: an exclusive `flock` of a file beside the ledger, `FILE-lock`.
///
/// The system releases the lock when the process ends, however it ends. The file stays, and says nothing: only its
/// lock counts, so no process id can be mistaken for that of another container. The lock is not on the ledger's own
/// file, because a close of that file would release SQLite's locks (`fcntl`) of the whole process, and because NFS
/// makes a `flock` out of such locks, which would shut out SQLite itself. It does not concern commands that may run
/// beside a server.
final class ServerLock: Sendable {
    /// Why there is no lock: the file system has none, or the file cannot be created. `nil` if there is one.
    let failure: String?
    private let descriptor: Mutex<Int32?>

    /// - Parameter ledger: The path of the ledger. A link leads to the lock of its target, as with SQLite's own files.
    /// - Throws: `LedgerStorageError` `unavailable` if another server has the lock, or if the file has several names.
    init(_ ledger: String) throws {
        try Self.requireOneName(ledger)
        let outcome = try Self.lock(URL(fileURLWithPath: ledger).resolvingSymlinksInPath().path + "-lock")
        failure = outcome.failure
        descriptor = Mutex(outcome.descriptor)
    }

    /// SQLite keeps a log beside each name of a file. Servers that open it by two names (hard links) overwrite each
    /// other, and a lock by name does not notice.
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

    /// The umask may have taken the permissions of the owner, who could then not open the file again.
    private static func makeUsable(_ file: Int32) {
        var status = stat()
        guard fstat(file, &status) == 0, status.st_mode & 0o600 != 0o600 else { return }
        fchmod(file, status.st_mode & 0o777 | 0o600)
    }

    deinit { release() }

    /// Lets another server use the ledger.
    ///
    /// To close the file would not always suffice: until a child of this process begins its program, it has a copy of
    /// each open file, and with it the lock.
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

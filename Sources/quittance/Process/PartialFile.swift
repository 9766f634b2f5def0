// SPDX-License-Identifier: Apache-2.0

import Dispatch
import Foundation
import Synchronization

/// A file with a temporary name. The file gets its final name when it is complete.
///
/// A killed command leaves its file, which may have customers who are deleted later. Therefore the file is locked while
/// its writer lives, and each new file first removes those of the folder that nobody has locked.
final class PartialFile: Sendable {
    struct Failure: Error, CustomStringConvertible {
        var description: String

        /// Adds the error of the last system call to a message.
        init(_ message: String) {
            description = "\(message): \(String(cString: strerror(errno)))"
        }
    }

    let path: String
    private let descriptor: Int32

    private static let ending = ".quittance-partial"

    /// The names of this process's files.
    private static let own = Mutex<Set<String>>([])

    /// Creates an empty file with a unique name. Only its owner can read the file.
    init(beside target: String) throws {
        Self.removeAbandoned(beside: target)
        var path: String
        var file: Int32
        repeat {
            path = "\(target).\(UUID().uuidString.prefix(8))\(Self.ending)"
            file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            guard file >= 0 else { throw Failure("Cannot create a file in \(Self.folder(of: target))") }
        } while !Self.hold(file, path)
        self.path = path
        descriptor = file
        let name = URL(fileURLWithPath: path).lastPathComponent
        Self.own.withLock { _ = $0.insert(name) }
        // Sets the permissions regardless of the umask.
        fchmod(file, 0o600)
    }

    deinit { close(descriptor) }

    /// Locks a new file.
    ///
    /// - Returns: Whether the file is still there. Before the lock, another process may take the file for abandoned. A
    ///   ledger that SQLite then made at its path would be readable for others. The descriptor is closed in this case.
    static func hold(_ file: Int32, _ path: String) -> Bool {
        // On a file system without locks the file is not locked, and then nobody can lock and remove it either.
        let isTaken = !lock(file) && [EAGAIN, EACCES].contains(errno)
        if !isTaken, access(path, F_OK) == 0 { return true }
        close(file)
        return false
    }

    private static func folder(of path: String) -> String {
        URL(fileURLWithPath: path).deletingLastPathComponent().path
    }

    /// Removes what killed commands left in the folder of a file.
    static func removeAbandoned(beside path: String) {
        let folder = folder(of: path)
        // The creation of a file reports that there is no folder.
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        // Closing a further descriptor would release SQLite's locks on a file of this process.
        for name in names where name.hasSuffix(ending) && !own.withLock({ $0.contains(name) }) {
            let file = open("\(folder)/\(name)", O_RDWR | O_CLOEXEC | O_NOFOLLOW)
            guard file >= 0 else { continue }
            if lock(file) { remove("\(folder)/\(name)") }
            close(file)
        }
    }

    /// Locks a byte far behind those that SQLite locks. The lock belongs to the descriptor, so it lasts while SQLite
    /// opens and closes the file, and ends with the process. NFS would let `flock` shut out SQLite.
    private static func lock(_ file: Int32) -> Bool {
        var byte = flock()
        byte.l_type = Int16(F_WRLCK)
        byte.l_whence = Int16(SEEK_SET)
        byte.l_start = 1 << 40
        byte.l_len = 1
        return fcntl(file, setLock, &byte) == 0
    }

    /// `F_OFD_SETLK`, which Swift does not import.
    #if os(Linux)
    private static let setLock: Int32 = 37
    #else
    private static let setLock: Int32 = 90
    #endif

    /// Flushes the file, renames it to `target`, and flushes the folder. An existing `target` is an error unless
    /// `replacing` is true. The file then takes over the owner and the group of the replaced file, if this user is
    /// allowed to change them.
    func install(as target: String, replacing: Bool) throws {
        try Self.flush(path)
        if replacing {
            var status = stat()
            if stat(target, &status) == 0 { _ = chown(path, status.st_uid, status.st_gid) }
            guard rename(path, target) == 0 else { throw Failure("Cannot write \(target)") }
        } else {
            // Unlike `rename`, `link` never replaces a file that was created meanwhile. On a file system without hard
            // links it fails, so the message names --force.
            guard link(path, target) == 0 else { throw Failure("Cannot create \(target) without --force") }
            unlink(path)
        }
        try Self.flushFolder(of: target)
    }

    static func flush(_ path: String) throws {
        let file = open(path, O_RDONLY)
        guard file >= 0 else { throw Failure("Cannot flush \(path)") }
        defer { close(file) }
        guard fsync(file) == 0 else { throw Failure("Cannot flush \(path)") }
    }

    static func flushFolder(of path: String) throws {
        try flush(folder(of: path))
    }

    func remove() { Self.remove(path) }

    /// The file itself goes last, because an interrupted removal goes on from its name.
    private static func remove(_ path: String) {
        for ending in ["-wal", "-shm", "-journal", ""] { unlink(path + ending) }
    }

    /// Removes the file if a signal ends the command.
    ///
    /// - Returns: The signal sources. Keep them while the file is incomplete, then cancel them.
    func removeIfInterrupted() -> [any DispatchSourceSignal] {
        [SIGINT, SIGTERM, SIGHUP].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler {
                self.remove()
                Foundation.exit(128 + number)
            }
            source.activate()
            return source
        }
    }
}

/// Reports every tenth of a copy on standard error, if standard error is a terminal.
final class CopyProgress {
    private var tenths = 0

    func report(_ copied: Int, of total: Int) {
        guard Terminal.isErrorInteractive, total > 0, copied * 10 / total > tenths else { return }
        tenths = copied * 10 / total
        Terminal.printError("\(tenths * 10) % of \(total >> 20) MiB copied")
    }
}

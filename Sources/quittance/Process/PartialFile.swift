// SPDX-License-Identifier: Apache-2.0

import Dispatch
import Foundation

/// A file with a temporary name. The file gets its final name when it is complete.
struct PartialFile {
    struct Failure: Error, CustomStringConvertible {
        var description: String

        /// Adds the error of the last system call to a message.
        init(_ message: String) {
            description = "\(message): \(String(cString: strerror(errno)))"
        }
    }

    let path: String

    /// Creates an empty file with a unique name. Only its owner can read the file.
    init(beside target: String) throws {
        path = "\(target).\(UUID().uuidString.prefix(8)).partial"
        let file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0o600)
        guard file >= 0 else {
            throw Failure("Cannot create a file in \(URL(fileURLWithPath: path).deletingLastPathComponent().path)")
        }
        // Sets the permissions regardless of the umask.
        fchmod(file, 0o600)
        close(file)
    }

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
        try flush(URL(fileURLWithPath: path).deletingLastPathComponent().path)
    }

    func remove() {
        for ending in ["", "-wal", "-shm", "-journal"] { unlink(path + ending) }
    }

    /// Removes the file if a signal ends the command.
    ///
    /// - Returns: The signal sources. Keep them while the file is incomplete, then cancel them.
    func removeIfInterrupted() -> [any DispatchSourceSignal] {
        [SIGINT, SIGTERM, SIGHUP].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler {
                remove()
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

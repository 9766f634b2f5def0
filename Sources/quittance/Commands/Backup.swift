// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Dispatch
import Foundation
import LedgerSQLite
import PurchaseLedger

/// `quittance backup`: copies a ledger into one file.
struct Backup: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Copy a ledger into one file. The server may run meanwhile.",
        discussion: """
            The copy contains everything that the server confirmed before the command started. The command writes a \
            temporary file, checks it, flushes it to disk and then renames it to TARGET. Only you can read the file \
            (0600), since it contains the hashes of API keys and your customers' purchases.

            A ledger in PostgreSQL is refused: back it up with pg_basebackup or pg_dump.

            To restore a backup: stop the server, move FILE, FILE-wal and FILE-shm away, copy the backup to FILE, run \
            quittance check, start the server. docs/ledger.md has the steps.

            Exit status: 0 the copy is complete and valid; 1 there is no copy, with the reason on standard error; 2 \
            wrong usage.

              quittance backup /backups/monday.sqlite --database sqlite:quittance.sqlite
            """)

    @Argument(help: "The file to write.", completion: .file())
    var target: String

    @OptionGroup var options: ServerOptions

    @Flag(
        help: """
            Replace TARGET if it exists, once the new copy is valid. If TARGET is a symbolic link, the link is replaced.
            """)
    var force = false

    func run() throws {
        let source = try options.composition().existingLedger()
        try requireFree(besides: source)
        do {
            let copy = try PartialFile(beside: target)
            defer { copy.remove() }
            let interruption = removeIfInterrupted(copy)
            defer { interruption.forEach { $0.cancel() } }
            let progress = CopyProgress()
            let documents = try SQLiteLedgerBackup.copy(source, to: copy.path, onProgress: progress.report)
            let faults = try SQLiteLedgerBackup.faults(copy.path, documents: documents)
            guard faults.isEmpty else { throw failure(faults) }
            try copy.install(as: target, replacing: force)
            try Terminal.print("\(counted(documents, "document")) copied to \(target) and verified.")
        } catch let error as LedgerStorageError {
            throw failure([error.code == .full ? "\(target): The disk is full." : "\(error)"])
        } catch let error as PartialFile.Failure {
            throw failure([error.description])
        }
    }

    private func failure(_ reasons: [String]) -> ExitCode {
        for reason in reasons { Terminal.printError("quittance: \(reason)") }
        Terminal.printError("quittance: No backup was created.")
        return ExitCode(1)
    }

    private func requireFree(besides source: String) throws {
        guard !target.isEmpty else { throw ValidationError("TARGET is empty: name the file to write.") }
        let copy = URL(fileURLWithPath: target).resolvingSymlinksInPath()
        let taken = ["", "-wal", "-shm"].map { URL(fileURLWithPath: source).resolvingSymlinksInPath().path + $0 }
        guard !taken.contains(copy.path) else {
            throw ValidationError("\(target) is the ledger itself: choose another file.")
        }
        let type = try? FileManager.default.attributesOfItem(atPath: target)[.type] as? FileAttributeType
        guard let type else { return }
        guard type == .typeRegular || type == .typeSymbolicLink else {
            throw ValidationError("\(target) is not a regular file: choose another name.")
        }
        guard force else { throw ValidationError("\(target) exists: choose another file, or add --force.") }
    }

    /// Removes the partial copy if a signal ends the command.
    private func removeIfInterrupted(_ copy: PartialFile) -> [any DispatchSourceSignal] {
        [SIGINT, SIGTERM, SIGHUP].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler {
                copy.remove()
                Foundation.exit(128 + number)
            }
            source.activate()
            return source
        }
    }
}

/// A file with a temporary name, which gets its final name once it is complete.
private struct PartialFile {
    struct Failure: Error, CustomStringConvertible {
        var description: String

        /// Adds the error of the last system call to a message.
        init(_ message: String) {
            description = "\(message): \(String(cString: strerror(errno)))"
        }
    }

    let path: String

    /// Creates an empty file with a unique name, which only its owner can read.
    init(beside target: String) throws {
        path = "\(target).\(UUID().uuidString.prefix(8)).partial"
        let file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0o600)
        guard file >= 0 else {
            throw Failure("Cannot create a file in \(URL(fileURLWithPath: path).deletingLastPathComponent().path)")
        }
        // Whatever the umask.
        fchmod(file, 0o600)
        close(file)
    }

    /// Flushes the file, renames it to `target`, and flushes the folder.
    func install(as target: String, replacing: Bool) throws {
        try Self.flush(path)
        if replacing {
            guard rename(path, target) == 0 else { throw Failure("Cannot write \(target)") }
        } else {
            // Unlike `rename`, this never replaces a file that was created meanwhile. Some file systems have no hard
            // links.
            guard link(path, target) == 0 else { throw Failure("Cannot create \(target) without --force") }
            unlink(path)
        }
        try Self.flush(URL(fileURLWithPath: target).deletingLastPathComponent().path)
    }

    private static func flush(_ path: String) throws {
        let file = open(path, O_RDONLY)
        guard file >= 0 else { throw Failure("Cannot flush \(path)") }
        defer { close(file) }
        guard fsync(file) == 0 else { throw Failure("Cannot flush \(path)") }
    }

    func remove() {
        for ending in ["", "-wal", "-shm", "-journal"] { unlink(path + ending) }
    }
}

/// Reports every tenth of a copy on standard error, if that is a terminal.
private final class CopyProgress {
    private var tenths = 0

    func report(_ copied: Int, of total: Int) {
        guard Terminal.isErrorInteractive, total > 0, copied * 10 / total > tenths else { return }
        tenths = copied * 10 / total
        Terminal.printError("\(tenths * 10) % of \(total >> 20) MiB copied")
    }
}

// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Dispatch
import Foundation
import LedgerSQLite
import PurchaseLedger

struct Backup: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Copy a ledger into one file, also while a server writes it.",
        discussion: """
            The copy has everything that was answered 200 before the command began. It is verified, flushed to the disk, and \
            only then gets its name. Only you can read it (0600): it has the hashes of API keys and what customers bought.

            To restore one: stop the server, move FILE, FILE-wal and FILE-shm away, put the copy in the place of FILE, run \
            quittance check, start the server. docs/ledger.md has the steps.

            Exit status: 0 the copy is there and valid; 1 no copy was made, and standard error says why; 2 wrong usage.

              quittance backup /backups/monday.sqlite --database sqlite:quittance.sqlite
            """)

    @Argument(help: "The file to write.", completion: .file())
    var target: String

    @OptionGroup var options: ServerOptions

    @Flag(
        help: """
            Replace TARGET if it is there, once the new copy is valid. A symbolic link is replaced itself, not the file that \
            it leads to.
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
            throw failure([error.code == .full ? "There is no room for \(target): the disk is full." : "\(error)"])
        } catch let error as PartialFile.Failure {
            throw failure([error.description])
        }
    }

    private func failure(_ reasons: [String]) -> ExitCode {
        for reason in reasons { Terminal.printError("quittance: \(reason)") }
        Terminal.printError("quittance: No copy was made.")
        return ExitCode(1)
    }

    private func requireFree(besides source: String) throws {
        guard !target.isEmpty else { throw ValidationError("TARGET is empty: name the file to write.") }
        let copy = URL(fileURLWithPath: target).resolvingSymlinksInPath()
        let taken = ["", "-wal", "-shm"].map { URL(fileURLWithPath: source).resolvingSymlinksInPath().path + $0 }
        guard !taken.contains(copy.path) else {
            throw ValidationError("\(target) is the ledger itself: name another file.")
        }
        let type = try? FileManager.default.attributesOfItem(atPath: target)[.type] as? FileAttributeType
        guard let type else { return }
        guard type == .typeRegular || type == .typeSymbolicLink else {
            throw ValidationError("\(target) is no file: name one.")
        }
        guard force else { throw ValidationError("\(target) is there already: name another file, or add --force.") }
    }

    /// Removes what was copied so far if a signal ends the command.
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

/// A file that gets its name when it is whole.
private struct PartialFile {
    struct Failure: Error, CustomStringConvertible {
        var description: String

        /// What the last call to the system failed with.
        init(_ what: String) {
            description = "\(what): \(String(cString: strerror(errno)))"
        }
    }

    let path: String

    /// An empty file with a name that no other has, which only its owner can read.
    init(beside target: String) throws {
        path = "\(target).\(UUID().uuidString.prefix(8)).partial"
        let file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0o600)
        guard file >= 0 else {
            throw Failure("No file can be made in \(URL(fileURLWithPath: path).deletingLastPathComponent().path)")
        }
        close(file)
    }

    /// Flushes it, names it `target`, and flushes the name.
    func install(as target: String, replacing: Bool) throws {
        try Self.flush(path)
        if replacing {
            guard rename(path, target) == 0 else { throw Failure("\(target) cannot be written") }
        } else {
            // Unlike `rename`, this replaces no file that was made meanwhile. Some file systems have no hard links.
            guard link(path, target) == 0 else { throw Failure("\(target) cannot be made without --force") }
            unlink(path)
        }
        try Self.flush(URL(fileURLWithPath: target).deletingLastPathComponent().path)
    }

    private static func flush(_ path: String) throws {
        let file = open(path, O_RDONLY)
        guard file >= 0 else { throw Failure("\(path) cannot be flushed") }
        defer { close(file) }
        guard fsync(file) == 0 else { throw Failure("\(path) cannot be flushed") }
    }

    func remove() {
        for ending in ["", "-wal", "-shm", "-journal"] { unlink(path + ending) }
    }
}

/// Says on standard error how much is copied, at every tenth, if a person looks at it.
private final class CopyProgress {
    private var tenths = 0

    func report(_ copied: Int, of total: Int) {
        guard Terminal.isErrorInteractive, total > 0, copied * 10 / total > tenths else { return }
        tenths = copied * 10 / total
        Terminal.printError("\(tenths * 10) % of \(total >> 20) MiB copied")
    }
}

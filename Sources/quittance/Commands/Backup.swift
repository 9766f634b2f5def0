// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import LedgerSQLite
import PurchaseLedger
import PurchaseServer

/// `quittance backup`: copies a ledger into one file.
struct Backup: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Copy a ledger into one file. The server may run meanwhile.",
        usage: "quittance backup <target> [options]",
        discussion: """
            The copy contains everything that the server confirmed before the command started. The command writes a \
            temporary file, checks it, flushes it to disk and then renames it to TARGET. Only you can read the file \
            (0600), since it contains the hashes of API keys and your customers' purchases.

            The journal of erasures, FILE-erasures, is copied to TARGET-erasures: without it, a restored backup brings \
            back customers who were deleted since.

            A ledger in PostgreSQL is refused: back it up with pg_basebackup or pg_dump.

            To restore a backup: stop the server, run quittance restore, start the server.

            Exit status: 0 the copy is complete and valid; 1 there is no copy, with the reason on standard error; 2 \
            wrong usage.

              quittance backup /backups/monday.sqlite --database sqlite:quittance.sqlite

            \(ConfigTopic.ledgerOptions)
            """)

    @Argument(help: "The file to write.", completion: .file())
    var target: String

    @OptionGroup(visibility: .inTopic) var options: ServerOptions

    @Flag(
        help: """
            Replace TARGET if it exists, once the new copy is valid. If TARGET is a symbolic link, the link is replaced.
            """)
    var force = false

    func run() throws {
        let composition = try options.composition()
        let source = try composition.existingLedger()
        try requireFree(besides: source, composition.erasureJournalPath)
        do {
            try requireWholeLog(source)
            let copy = try PartialFile(beside: target)
            defer { copy.remove() }
            let interruption = copy.removeIfInterrupted()
            defer { interruption.forEach { $0.cancel() } }
            let progress = CopyProgress()
            let documents = try SQLiteLedgerBackup.copy(
                source, to: copy.path, at: composition.now(), onProgress: progress.report)
            try composition.warnOfExposure()
            let faults = try SQLiteLedgerBackup.faults(copy.path, documents: documents)
            guard faults.isEmpty else { throw failure(faults) }
            // The journal is installed before the ledger's copy. Otherwise an interruption could leave a backup without
            // its journal, and a restore of this backup would bring deleted customers back.
            try copyErasures(composition.erasureJournalPath)
            try copy.install(as: target, replacing: force)
            try Terminal.print("\(counted(documents, "document")) copied to \(target) and verified.")
        } catch let error as LedgerStorageError {
            throw failure([error.code == .full ? "\(target): The disk is full." : "\(error)"])
        } catch let error as PartialFile.Failure {
            throw failure([error.description])
        }
    }

    /// Copies and installs the journal of erasures. The journal is read after the ledger, so that the copied journal
    /// has every erasure of the copied ledger.
    private func copyErasures(_ path: String?) throws {
        guard let path else { return }
        let text = try ErasureJournalFile.text(of: path)
        guard !text.isEmpty else { return }
        let file = target + Composition.erasuresEnding
        let copy = try PartialFile(beside: file)
        defer { copy.remove() }
        try text.write(toFile: copy.path, atomically: false, encoding: .utf8)
        try copy.install(as: file, replacing: force)
    }

    private func failure(_ reasons: [String]) -> ExitCode {
        reasons.forEach(Terminal.report)
        return Terminal.failure("No backup was created.")
    }

    /// Refuses a ledger that has lost acknowledged commits, so that no incomplete copy replaces an intact backup.
    private func requireWholeLog(_ source: String) throws {
        guard let loss = try SQLiteLedgerStorage.loss(at: source) else { return }
        throw failure([loss])
    }

    private func requireFree(besides source: String, _ journal: String?) throws {
        guard !target.isEmpty else { throw ValidationError("TARGET is empty: name the file to write.") }
        let copy = URL(fileURLWithPath: target).resolvingSymlinksInPath()
        let ledger = URL(fileURLWithPath: source).resolvingSymlinksInPath().path
        guard copy.path != ledger else {
            throw ValidationError("\(target) is the ledger itself: choose a different file.")
        }
        // The ledger's own files, such as its lock file, have names of this form. If a copy replaced the lock file, a
        // second server could start beside the first.
        guard !copy.path.hasPrefix(ledger + "-") else {
            throw ValidationError("\(target) is a name of the ledger's own files: choose a different file.")
        }
        for path in [target, target + Composition.erasuresEnding] {
            guard URL(fileURLWithPath: path).resolvingSymlinksInPath().path != journal else {
                throw ValidationError("\(path) is the journal of erasures: choose a different file.")
            }
            try requireFree(path)
        }
    }

    private func requireFree(_ target: String) throws {
        // If the attributes cannot be read, either the file does not exist, or the later write fails with the reason.
        let type = try? FileManager.default.attributesOfItem(atPath: target)[.type] as? FileAttributeType
        guard let type else { return }
        guard type == .typeRegular || type == .typeSymbolicLink else {
            throw ValidationError("\(target) is not a regular file: choose a different name.")
        }
        guard force else { throw ValidationError("\(target) exists: choose another file, or add --force.") }
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import ArgumentParser
import Foundation
import LedgerSQLite
import PurchaseLedger
import PurchaseServer

/// `quittance restore`: replaces a ledger with a backup, or begins a new epoch of events after a database was restored.
/// Each restore begins an epoch, a numbering of the events. A cursor names its epoch, so the server recognises cursors
/// from before the restore.
struct Restore: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Restore a ledger from a backup. Stop the server first.",
        usage: "quittance restore (<backup> | --new-epoch) [options]",
        discussion: """
            With BACKUP, a copy that quittance backup made: the command checks it, with all signatures, and puts it in \
            the place of the ledger. The old files are moved to FILE.replaced-TIME and kept.

            Without BACKUP, with --new-epoch: for a database that PostgreSQL's own tools restored, or after a failover \
            not visible in the database (docs/postgresql-operations.md), or for a ledger in a file whose journal of \
            erasures is lost (docs/ledger.md).

            In both cases, customers whose deletion is in the journal of erasures are deleted again, and the events \
            begin an epoch: a follower whose cursor is beyond the backup gets 410 with the cursor to go on from, and \
            every webhook gets the event ledger.restored.

            Exit status: 0 the ledger is restored; 1 nothing was replaced, with the reason on standard error; 2 wrong \
            usage.

              quittance restore /backups/monday.sqlite --database sqlite:quittance.sqlite
              quittance restore --new-epoch --database postgresql:///ledger

            \(ConfigTopic.ledgerOptions)
            """)

    @Argument(help: "The backup.", completion: .file())
    var backup: String?

    @OptionGroup(visibility: .inTopic) var options: ServerOptions

    @Flag(
        name: .customLong("new-epoch"),
        help: """
            Keep the ledger: delete again who is in the journal of erasures, and let followers know that events may be \
            missing.
            """)
    var newEpoch = false

    @Flag(
        help: """
            Restore the backup although some of its documents or purchases have faults. With --new-epoch: accept what \
            the journal of erasures lacks.
            """)
    var force = false

    func validate() throws {
        guard (backup == nil) == newEpoch else {
            throw ValidationError("Pass the BACKUP to restore, or --new-epoch without BACKUP.")
        }
    }

    func run() async throws {
        let composition = try options.composition()
        let verifier = try composition.verifier(checkingRevocation: false)
        guard let backup else {
            return try await endingOnDamage {
                if !force { try await requireErasures(composition) }
                let erased = try await composition.withStorage(.working) { storage in
                    let service = composition.service(storage, verifier)
                    // The events of the erasures belong to the new epoch: lost events may have had the next numbers.
                    try await storage.beginEpoch(at: composition.now())
                    return try await eraseAgain(composition, service, from: nil)
                }
                try Terminal.print("The events begin an epoch. \(Self.sentence(erased))\n\(Self.advice)")
            }
        }
        let path = try composition.ledgerFile()
        guard FileManager.default.fileExists(atPath: backup) else {
            throw ValidationError("There is no backup at \(backup).")
        }
        try await endingOnDamage {
            let target = try SQLiteLedgerFiles(path)
            defer { target.release() }
            guard URL(fileURLWithPath: backup).resolvingSymlinksInPath().path != target.path else {
                throw ValidationError("\(backup) is the ledger itself: pass a backup.")
            }
            if let failure = target.lockFailure {
                Terminal.report("Make sure that no server uses the file: \(failure)")
            }
            try await restore(backup, to: target, composition.with(.sqlite(path: target.path)), verifier)
        }
    }

    private func restore(
        _ backup: String, to target: SQLiteLedgerFiles, _ composition: Composition, _ verifier: AppStoreVerifier
    ) async throws {
        let copy = try PartialFile(beside: target.path)
        defer { copy.remove() }
        let interruption = copy.removeIfInterrupted()
        let documents = try copyLedger(backup, to: copy.path, at: composition.now())

        let storage = try SQLiteLedgerStorage(path: copy.path, createIfMissing: false)
        let erased = try await Composition.closing(storage) {
            let service = composition.service(storage, verifier)
            var verified = Progress(verb: "verified")
            let checked = try await service.ledger.check(by: verifier) { verified.report($0) }
            if !checked.faults.isEmpty, !force {
                let rest = "quittance check --database sqlite:\(backup) --all lists all"
                throw failure(
                    FaultList(faults: checked.faults).lines(rest: rest) + [
                        "Pass --root or --config as to the server, or --force to restore a backup with these faults."
                    ])
            }
            try await requireApps(of: composition, in: storage)
            try await addKnowledge(of: target.path, to: storage)
            return try await eraseAgain(composition, service, from: backup)
        }

        try PartialFile.flush(copy.path)
        let old = target.unusedPath(target.path + ".replaced-" + Self.stamp(composition.now()))
        let hadLedger = FileManager.default.fileExists(atPath: target.path)
        // From here on the files are only renamed, and an interruption must no longer remove the copy.
        interruption.forEach { $0.cancel() }
        try target.replace(by: copy.path, movingTo: old)
        try PartialFile.flushFolder(of: target.path)
        try Terminal.print(
            """
            Restored \(counted(documents, "document")) from \(backup) to \(target.path). \(Self.sentence(erased))
            \(hadLedger ? "The ledger that was there is \(old): keep it until you know that nothing is missing.\n" : "")\
            \(Self.advice)
            """)
    }

    /// - Returns: The number of documents in the backup.
    private func copyLedger(_ backup: String, to path: String, at now: Timestamp) throws -> Int {
        do {
            if !force, let loss = try SQLiteLedgerStorage.loss(at: backup) { throw failure([loss]) }
            let progress = CopyProgress()
            let documents = try SQLiteLedgerBackup.copy(
                backup, to: path, at: now, isRestore: true, onProgress: progress.report)
            let faults = try SQLiteLedgerBackup.faults(path, documents: documents)
            guard faults.isEmpty else { throw failure(faults) }
            return documents
        } catch let error as LedgerStorageError {
            throw failure(["\(backup): \(error)"])
        }
    }

    /// Refuses a backup with apps if none of them is configured. Otherwise the backup would be restored without a
    /// warning, although the server never reads its purchases.
    private func requireApps(of composition: Composition, in storage: SQLiteLedgerStorage) async throws {
        let configured = composition.configuration.apps.map(\.identity.bundleId)
        let found = try await storage.marks().erasedEvents.keys.sorted()
        guard !force, !configured.isEmpty, !found.isEmpty, Set(configured).isDisjoint(with: found) else { return }
        throw failure([
            "The backup has \(found.joined(separator: ", ")), and the configuration \(configured.joined(separator: ", ")).",
            "--force restores it all the same.",
        ])
    }

    /// Adds the epochs of the replaced ledger's events to the restored ledger, which then recognises cursors from the
    /// replaced ledger, and the numbers of its erasures, which the journal must have. Closing the replaced ledger
    /// merges its write-ahead log into its file. If the replaced ledger cannot be read, clients whose event cursor was
    /// issued since the backup may have to read all events again.
    private func addKnowledge(of path: String, to storage: SQLiteLedgerStorage) async throws {
        guard FileManager.default.fileExists(atPath: path) else { return }
        let others: [String: EventEpochs]
        let erasures: [ErasureNote]
        do {
            let replaced = try SQLiteLedgerStorage(path: path, createIfMissing: false, upgrades: false)
            // A failed close is harmless: the epochs are loaded by then, and the file is replaced anyway.
            defer { try? replaced.close() }
            if let concern = replaced.condition.concern {
                Terminal.report("The ledger that is replaced (copies of its damaged logs move with it): \(concern)")
            }
            others = try await replaced.marks().epochs
            erasures = try await Ledger(storage: replaced).erasureNotes()
        } catch {
            return Terminal.report(
                """
                The ledger that is replaced cannot be read (\(error)): followers whose cursors it gave \
                since the backup may get 400 invalidCursor, and begin again. Nobody can say whether the journal of \
                erasures has all its deletions.
                """)
        }
        try await Ledger(storage: storage).noteErasures(knownTo: erasures)
        var epochs = try await storage.marks().epochs
        for (app, other) in others { epochs[app]?.add(replaced: other) }
        let marks = epochs
        try await storage.commit(LedgerQuery()) { _ in
            var changes = LedgerChanges()
            changes.marks.epochs = marks
            return .commit(changes, ())
        }
    }

    /// Refuses a new epoch of a ledger in a file if the journal of erasures lacks some: the epoch alone would not end
    /// this. A database needs its epoch in any case, and other servers may have the erasures.
    private func requireErasures(_ composition: Composition) async throws {
        guard composition.isInFile, let path = composition.erasureJournalPath else { return }
        let storage = try await composition.opened(.checking)
        let concern = try await Ledger(storage: storage).erasureConcern(at: path, isOnly: true)
        try storage.close()
        guard let concern else { return }
        throw Terminal.failure("\(concern).", "Nothing was changed; pass --force to accept the loss.")
    }

    /// Repeats the erasures in the journals of the ledger and of the backup.
    ///
    /// - Returns: The number of erased customers; `nil` if no journal is configured.
    private func eraseAgain(
        _ composition: Composition, _ service: LedgerService, from backup: String?
    ) async throws -> Int? {
        guard let path = composition.erasureJournalPath else { return nil }
        // A server that uses the journal is refused before the file is replaced.
        if backup == nil { _ = try composition.erasureJournal() }
        let accepts = force && backup == nil
        let loss = accepts ? try await service.ledger.erasureConcern(at: path, isOnly: composition.isInFile) : nil
        let own = try ErasureJournalFile.text(of: path)
        try ErasureSection.requireJournal(own, path)
        var text = accepts ? ErasureSection.resealed(own) : own
        if let backup {
            let place = URL(fileURLWithPath: backup).resolvingSymlinksInPath().path + Composition.erasuresEnding
            let other = try ErasureJournalFile.text(of: place)
            try ErasureSection.requireJournal(other, place)
            if let line = ErasureSection.damagedLine(in: other) {
                Terminal.report("\(place) is damaged in line \(line): what cannot be read was left out.")
            }
            text = ErasureSection.merge(other, into: own)
        }
        if text != own {
            let file = try PartialFile(beside: path)
            defer { file.remove() }
            try text.write(toFile: file.path, atomically: false, encoding: .utf8)
            try file.install(as: path, replacing: true)
        }
        guard let journal = try composition.erasureJournal() else { return nil }
        let (erased, concern) = try await service.ledger.replay(
            journal, isOnly: composition.isInFile, accepts: accepts, restoringAt: composition.now())
        if let loss { Terminal.report("\(loss). --force accepts the loss: it is no concern any more.") }
        if let concern { Terminal.report(concern) }
        return erased
    }

    private static func sentence(_ erased: Int?) -> String {
        guard let erased else {
            return "Without erasureJournal, customers who were deleted since are in the ledger again."
        }
        return "\(counted(erased, "deleted customer")) erased again."
    }

    /// The remaining steps for the operator.
    private static let advice = """
        API keys that were revoked since are valid again: quittance keys list.
        A follower of /v1/events that is ahead gets 410 with "oldest". The follower goes on from there, and rereads events.
        Documents signed since the backup return if the apps have In-App Purchase keys, or with quittance backfill.
        """

    /// The time in a form such as `20261125T214500Z`.
    private static func stamp(_ now: Timestamp) -> String {
        now.iso8601.prefix { $0 != "." && $0 != "Z" }.filter { $0 != "-" && $0 != ":" } + "Z"
    }

    private func failure(_ reasons: [String]) -> ExitCode {
        reasons.forEach(Terminal.report)
        return Terminal.failure("Nothing was restored.")
    }
}

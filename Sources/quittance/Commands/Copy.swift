// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import Foundation
import PurchaseLedger
import PurchaseServer

/// `quittance copy`: copies a ledger between a file and a database.
struct Copy: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Copy a ledger from a file into a database, or back. Stop all servers first.",
        usage: "quittance copy --to <to> [options]",
        discussion: """
            Copies everything: documents, purchases, customers, API keys, jobs, and events under their cursors, so \
            that clients go on where they are. Each document is verified on the way; pass the same roots as to the \
            server. Then all of both ledgers is compared, in both directions.

            The target must be empty: the command makes the file, or the tables in the database. If the command was \
            interrupted, run the command again to continue. The command never changes the source, and never replaces \
            data in the target. A ledger that cannot be copied is refused before the target is made. Then, until \
            status 0, the target is half a copy: no server and no other command opens the target.

            No server and no other command may use either ledger meanwhile. A file in use by a server is refused; \
            servers on a database you must stop yourself.

            Exit status: 0 all is copied, and nothing differs; 1 not, with the reason on standard error; 2 wrong usage.

              quittance copy --database sqlite:quittance.sqlite --to postgresql:///ledger
              quittance copy --database postgresql:///ledger --to sqlite:quittance.sqlite

            \(ConfigTopic.ledgerOptions)
            """)

    @OptionGroup(visibility: .inTopic) var options: ServerOptions

    @Option(help: "Where to copy the ledger: sqlite:PATH or postgresql://….", completion: .file())
    var to: String

    func validate() throws { _ = try ServerOptions.location(to, "--to") }

    func run() async throws {
        let to = try ServerOptions.location(to, "--to")
        let composition = try options.composition()
        guard composition.configuration.database?.isSameFile(as: to) != true else { throw Self.isItself }
        let verifier = try composition.verifier(checkingRevocation: false)
        try await endingOnDamage {
            let report = try await composition.withStorage(.copyingFrom) { source in
                try await LedgerCopy.requireCopyable(source, by: verifier)
                return try await composition.with(to).withStorage(.copyingInto) { target in
                    try await requireTwo(source, target)
                    let copy = LedgerCopy(from: source, named: try composition.ledgerName, to: target, by: verifier)
                    return try await run(copy, at: composition.now())
                }
            }
            try Terminal.print("Copied: \(report.copied.sentence).")
            try Terminal.print("Compared: \(report.compared.sentence); nothing differs.")
        }
    }

    /// Runs the copy. After a transient error or on a full disk, a hint says that the same command can be run again.
    private func run(_ copy: LedgerCopy, at now: Timestamp) async throws -> LedgerCopy.Report {
        var progress = CopyReports()
        do {
            return try await copy.run(at: now) { progress.report($0) }
        } catch let error as LedgerStorageError where error.isPassing || error.code == .full {
            let first = error.code == .full ? "Make room, and run" : "Run"
            throw Terminal.failure("\(error)", "\(first) the same command again: it goes on where it was.")
        }
    }

    private static let isItself = ValidationError("--to is the ledger itself: choose a different place.")

    /// Refuses two addresses of one ledger. Warns if a file cannot be locked, because a server might then use it
    /// meanwhile.
    private func requireTwo(_ source: any LedgerStorage, _ target: any LedgerStorage) async throws {
        let reports = [try await source.report(), try await target.report()]
        guard reports[0].identity == nil || reports[0].identity != reports[1].identity else { throw Self.isItself }
        for failure in reports.compactMap(\.lockFailure) {
            Terminal.report("Make sure that no server uses the file: \(failure)")
        }
    }
}

extension LedgerLocation {
    /// Whether both locations are the same file, even by different paths. Whether two different addresses lead to the
    /// same database is known only once both databases are open.
    fileprivate func isSameFile(as other: LedgerLocation) -> Bool {
        guard case .sqlite(let path) = self, case .sqlite(let otherPath) = other else { return self == other }
        let files = [path, otherPath].map { URL(fileURLWithPath: $0).resolvingSymlinksInPath().path }
        return files[0] == files[1]
    }
}

/// Reports the progress and the speed of a copy on standard error.
private struct CopyReports {
    private let clock = ContinuousClock()
    /// The first report of the present stage.
    private var first: LedgerCopy.Progress?
    /// The document count of the last printed report. Before any report is printed, the count of ``first``.
    private var last = 0
    private var start = ContinuousClock().now

    /// The number of documents between two printed reports. A copy takes some ten seconds for as many.
    private static let step = 10_000

    mutating func report(_ progress: LedgerCopy.Progress) {
        guard let first, first.stage == progress.stage else {
            first = progress
            last = progress.documents
            start = clock.now
            return
        }
        guard progress.documents - last >= Self.step else { return }
        last = progress.documents
        let rate = Double(progress.documents - first.documents) / ((clock.now - start) / .seconds(1))
        Terminal.printError(
            "\(progress.documents) of \(progress.total) documents \(progress.stage.rawValue), "
                + "\(Int(rate)) a second …")
    }
}

extension LedgerCounts {
    fileprivate var sentence: String {
        [
            counted(customers, "customer"), counted(purchases, "purchase"), counted(documents, "document"),
            counted(jobs, "job"), counted(apiKeys, "API key"), counted(records, "other record"),
            counted(events, "event"),
        ].joined(separator: ", ")
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import LedgerSQLite
import PurchaseLedger
import PurchaseServer

/// `quittance copy`: copies a ledger between a file and a database.
struct Copy: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Copy a ledger from a file into a database, or back. Stop all servers first.",
        discussion: """
            Copies everything: documents, purchases, customers, API keys, jobs, and events under their cursors, so \
            that clients go on where they are. Each document is verified on the way; pass the same roots as to the \
            server. Then all of both ledgers is compared, in both directions.

            The target must be empty: the command makes the file, or the tables in the database. If the command was \
            interrupted, run it again: it goes on where it was. It never changes the source, and replaces nothing in \
            the target. Use the target only after status 0.

            No server and no other command may use either ledger meanwhile. A file in use by a server is refused; \
            servers on a database you must stop yourself.

            Exit status: 0 all is copied, and nothing differs; 1 not, with the reason on standard error; 2 wrong usage.

              quittance copy --database sqlite:quittance.sqlite --to postgresql:///ledger
              quittance copy --database postgresql:///ledger --to sqlite:quittance.sqlite
            """)

    @OptionGroup var options: ServerOptions

    @Option(help: "Where to copy the ledger: sqlite:PATH or postgresql://….", completion: .file())
    var to: String

    func validate() throws { _ = try ServerOptions.location(to, "--to") }

    func run() async throws {
        let to = try ServerOptions.location(to, "--to")
        let composition = try options.composition()
        guard composition.configuration.database != to else { throw Self.isItself }
        let verifier = try composition.verifier(checkingRevocation: false)
        let source = try await composition.storageForCopying()
        let target = try await composition.with(to).storageForServing()
        guard await !composition.areSame(source, target) else { throw Self.isItself }
        warn(about: source)
        warn(about: target)
        try await endingOnDamage {
            var progress = (copied: Progress("copied"), compared: Progress("compared"))
            let report = try await LedgerCopy(from: source, to: target, by: verifier).run { stage, count in
                switch stage {
                case .copied: progress.copied.report(count)
                case .compared: progress.compared.report(count)
                }
            }
            try target.close()
            try source.close()
            try Terminal.print("Copied: \(report.copied.sentence).")
            try Terminal.print("Compared: \(report.compared.sentence); nothing differs.")
        }
    }

    private static let isItself = ValidationError("--to is the ledger itself: choose another place.")

    private func warn(about storage: any LedgerStorage) {
        guard let failure = (storage as? SQLiteLedgerStorage)?.lockFailure else { return }
        Terminal.printError("quittance: Make sure that no server uses the file: \(failure)")
    }
}

extension LedgerCounts {
    fileprivate var sentence: String {
        [
            counted(customers, "customer"), counted(purchases, "purchase"), counted(documents, "document"),
            counted(jobs, "job"), counted(apiKeys, "API key"), counted(events, "event"),
        ].joined(separator: ", ")
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import PurchaseLedger
import PurchaseServer

/// `quittance check`: verifies all documents and purchases in a ledger.
struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check a ledger: the file, and every document, signature and purchase in it.",
        usage: "quittance check [options]",
        discussion: """
            The command does not change the ledger. The command also works on a damaged file. In a database the \
            command reads the stored rows; PostgreSQL's own checks are pg_amcheck and data checksums.

            Exit status: 0 the ledger is valid; 1 it has faults; 2 wrong usage. Standard error has how many faults of \
            each kind there are, and the first \(FaultList.listed) of them.

              quittance check --database sqlite:quittance.sqlite

            \(ConfigTopic.ledgerOptions)
            """)

    @OptionGroup(visibility: .inTopic) var options: ServerOptions

    @Flag(help: "List all faults.")
    var all = false

    func run() async throws {
        let composition = try options.composition()
        try await composition.onLedger(.checking) { storage in
            let verifier = try composition.verifier(checkingRevocation: false)
            let file = try await storage.faults()
            for fault in file { Terminal.report(fault.printable) }
            var progress = Progress(verb: "verified")
            let ledger = composition.service(storage, verifier).ledger
            let checked = try await ledger.check(by: verifier) { progress.report($0) }
            FaultList(faults: checked.faults).print(all: all, rest: "--all lists all")
            let faults = file.count + checked.faults.count
            let outcome = faults == 0 ? "no faults" : "faults: \(faults)"
            try Terminal.print("\(counted(checked.documents, "document")) verified; \(outcome).")
            if faults > 0 { throw ExitCode(1) }
        }
    }
}

/// Runs `body`, and ends the command with status 1 after any error that has no exit status of its own, because a
/// damaged ledger can cause all kinds of errors. Status 2 is reserved for wrong usage and for unwritable output.
func endingOnDamage(_ body: () async throws -> Void) async throws {
    do {
        try await body()
    } catch let error where !(error is ExitCode || error is ValidationError) {
        throw Terminal.failure("\(error)".printableLines.withoutAPIKeys)
    }
}

/// `quittance rebuild`: derives all purchases in a ledger anew from its documents.
struct Rebuild: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Derive all purchases in a ledger from the signed documents again, and correct differences.",
        usage: "quittance rebuild [options]",
        discussion: """
            Normally no purchase differs, and the command does not write. Otherwise the command corrects purchases and \
            publishes events about the changes. If the file is damaged or a document does not verify, the command \
            stops without changes. The server may run meanwhile.

            Exit status: 0 no purchase differed; 1 purchases differed or documents do not verify, as listed on \
            standard error; 2 wrong usage.

              quittance rebuild --database sqlite:quittance.sqlite

            \(ConfigTopic.ledgerOptions)
            """)

    @OptionGroup(visibility: .inTopic) var options: ServerOptions

    func run() async throws {
        let composition = try await options.compositionWithTime()
        try await endingOnDamage {
            try await requireUndamagedFile(composition)
            try report(try await composition.withStorage(.working) { try await rebuild(composition, $0) })
        }
    }

    /// Refuses a damaged file, because a rebuild would rely on its damaged parts.
    private func requireUndamagedFile(_ composition: Composition) async throws {
        guard case .sqlite = composition.configuration.database else { return }
        let faults = try await composition.withStorage(.inspecting) { try await $0.faults() }
        for fault in faults { Terminal.report(fault.printable) }
        guard faults.isEmpty else {
            throw Terminal.failure("The file is damaged, so nothing was changed: restore a backup.")
        }
    }

    private func rebuild(
        _ composition: Composition, _ storage: any LedgerStorage
    ) async throws -> RebuildReport {
        let verifier = try composition.verifier(checkingRevocation: false)
        let service = composition.service(storage, verifier)
        var progress = Progress(verb: "derived")
        return try await service.ledger.rebuild(by: verifier, at: composition.now()) { progress.report($0) }
    }

    private func report(_ rebuilt: RebuildReport) throws {
        FaultList(faults: rebuilt.faults).print(rest: "quittance check --all lists all")
        for key in rebuilt.differing {
            Terminal.report("\(key.originalTransactionId) of \(key.scope.bundleId) differed and was corrected")
        }
        guard rebuilt.faults.isEmpty else {
            throw Terminal.failure("These documents do not verify, so nothing was changed.")
        }
        try Terminal.print(
            "\(counted(rebuilt.documents, "document")); "
                + (rebuilt.differing.isEmpty
                    ? "nothing differs." : "purchases that differed: \(rebuilt.differing.count)."))
        if !rebuilt.differing.isEmpty { throw ExitCode(1) }
    }
}

/// Reports the progress of a long operation on standard error.
struct Progress {
    let verb: String
    var noun = "documents"
    var last = 0

    mutating func report(_ count: Int) {
        guard count - last >= 10_000 else { return }
        last = count
        Terminal.printError("\(count) \(noun) \(verb) …")
    }
}

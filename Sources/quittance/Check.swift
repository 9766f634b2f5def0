// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import LedgerSQLite
import PurchaseLedger
import PurchaseServer

struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check a ledger: the file, every document in it, every signature, and every purchase.",
        discussion: """
            Changes nothing in the file, and ends on any damage. Exit status: 0 all is right; 1 something is not, and standard \
            error says what; 2 wrong usage.

              quittance check --database sqlite:quittance.sqlite
            """)

    @OptionGroup var options: ServerOptions

    func run() async throws {
        let composition = try options.composition()
        let storage = try composition.storageForReading()
        let verifier = try composition.verifier(checkingRevocation: false)
        try await endingOnDamage {
            let file = try await storage.faults()
            for fault in file { Terminal.complain("quittance: \(fault)") }
            var progress = Progress("verified")
            let checked = try await Ledger(storage: storage).check(by: verifier) { progress.tell($0) }
            for fault in checked.faults { Terminal.complain("quittance: \(fault.sentence)") }
            try storage.close()
            let faults = file.count + checked.faults.count
            let outcome = faults == 0 ? "all is right" : "faults: \(faults)"
            try Terminal.print("\(counted(checked.documents, "document")) verified; \(outcome).")
            if faults > 0 { throw ExitCode(1) }
        }
    }
}

/// Ends the command with status 1 if the ledger cannot be read or written.
private func endingOnDamage(_ body: () async throws -> Void) async throws {
    do {
        try await body()
    } catch let error as LedgerStorageError {
        Terminal.complain("quittance: \(error)")
        throw ExitCode(1)
    }
}

struct Rebuild: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Derive everything in a ledger from the signed documents again, and compare.",
        discussion: """
            If nothing differs, as it should be, nothing is written. What differs is corrected, and events are published about it. \
            If the file is damaged or a document does not verify, nothing is changed. The server may run meanwhile.

            Exit status: 0 nothing differs; 1 something did, or does not verify, and standard error says what; 2 wrong usage.

              quittance rebuild --database sqlite:quittance.sqlite
            """)

    @OptionGroup var options: ServerOptions

    func run() async throws {
        let composition = try options.composition()
        try await requireWholeFile(composition)
        let storage = try composition.storage()
        try await endingOnDamage {
            let rebuilt = try await rebuild(composition, storage)
            try storage.close()
            try report(rebuilt)
        }
    }

    /// A repair would rely on what is damaged.
    private func requireWholeFile(_ composition: Composition) async throws {
        let storage = try composition.storageForReading()
        let faults = try await storage.faults()
        try storage.close()
        for fault in faults { Terminal.complain("quittance: \(fault)") }
        guard faults.isEmpty else {
            Terminal.complain("quittance: Nothing was changed, since the file is damaged: restore a backup.")
            throw ExitCode(1)
        }
    }

    private func rebuild(
        _ composition: Composition, _ storage: SQLiteLedgerStorage
    ) async throws -> RebuildReport {
        let verifier = try composition.verifier(checkingRevocation: false)
        let service = composition.service(storage, verifier)
        var progress = Progress("derived")
        return try await service.ledger.rebuild(by: verifier, at: composition.now()) { progress.tell($0) }
    }

    private func report(_ rebuilt: RebuildReport) throws {
        for fault in rebuilt.faults { Terminal.complain("quittance: \(fault.sentence)") }
        for key in rebuilt.differing {
            Terminal.complain(
                "quittance: \(key.originalTransactionId) of \(key.scope.bundleId) differed, and was corrected")
        }
        guard rebuilt.faults.isEmpty else {
            Terminal.complain("quittance: Nothing was changed, since these documents do not verify.")
            throw ExitCode(1)
        }
        try Terminal.print(
            "\(counted(rebuilt.documents, "document")); "
                + (rebuilt.differing.isEmpty
                    ? "nothing differs." : "purchases that differed: \(rebuilt.differing.count)."))
        if !rebuilt.differing.isEmpty { throw ExitCode(1) }
    }
}

extension Ledger.Fault {
    fileprivate var sentence: String { document.map { "document \($0): \(error)" } ?? error }
}

/// Says on standard error how far long work has come, where people look at it.
private struct Progress {
    private let verb: String
    private var last = 0

    init(_ verb: String) {
        self.verb = verb
    }

    mutating func tell(_ count: Int) {
        guard count - last >= 10_000 else { return }
        last = count
        Terminal.complain("\(count) documents \(verb) …")
    }
}

// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import Foundation
import LedgerSQLite
import PurchaseLedger
import PurchaseServer

struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check a ledger: the file, every document in it, and every signature.",
        discussion: """
            Changes nothing. Exit status: 0 all is right; 1 something is not, and standard error says what.

              quittance check --database sqlite:quittance.sqlite
            """)

    @OptionGroup var options: ServerOptions

    func run() async throws {
        let configuration = try options.configuration()
        let storage = try configuration.storage(mayMake: false)
        let file = try await storage.faults()
        for fault in file { Terminal.complain("quittance: \(fault)") }
        let ledger = Ledger(storage: storage)
        var progress = Progress("verified")
        let checked = try await ledger.check(by: try configuration.verifier(checkingRevocation: false)) {
            progress.tell($0)
        }
        for fault in checked.faults { Terminal.complain("quittance: \(fault.sentence)") }
        try storage.close()
        let faults = file.count + checked.faults.count
        try Terminal.print(
            "\(checked.documents) documents verified; \(faults == 0 ? "all is right" : "faults: \(faults)").")
        if faults > 0 { throw ExitCode(1) }
    }
}

struct Rebuild: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Derive everything in a ledger from the signed documents again, and compare.",
        discussion: """
            Where nothing differs, as it should be, nothing is written. What differs is put right, and events tell of it. Where a \
            document does not verify nothing is changed. Stop the server first: with documents that arrive meanwhile it gives up.

            Exit status: 0 nothing differs; 1 something did, or does not verify, and standard error says what.

              quittance rebuild --database sqlite:quittance.sqlite
            """)

    @OptionGroup var options: ServerOptions

    func run() async throws {
        let configuration = try options.configuration()
        let storage = try configuration.storage(mayMake: false)
        let path = configuration.databasePath + "-rebuild"
        defer { for ending in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + ending) } }
        guard !FileManager.default.fileExists(atPath: path) else {
            throw ValidationError("Somebody else rebuilds, or was interrupted: remove \(path) and run it again.")
        }
        let scratch = try SQLiteLedgerStorage(path: path)
        let service = LedgerService(
            configuration, storage: storage, verifier: try configuration.verifier(checkingRevocation: false))
        var progress = Progress("derived")
        let rebuilt = try await service.ledger.rebuild(
            in: scratch, by: configuration.verifier(checkingRevocation: false), at: Clock.now()
        ) { progress.tell($0) }
        try scratch.close()
        try storage.close()
        for fault in rebuilt.faults { Terminal.complain("quittance: \(fault.sentence)") }
        for key in rebuilt.differing {
            Terminal.complain(
                "quittance: \(key.originalTransactionId) of \(key.scope.bundleId) differed, and was put right")
        }
        guard rebuilt.faults.isEmpty else {
            Terminal.complain("quittance: Nothing was changed, since these documents do not verify.")
            throw ExitCode(1)
        }
        try Terminal.print(
            "\(rebuilt.documents) documents; "
                + (rebuilt.differing.isEmpty
                    ? "nothing differs." : "purchases that differed: \(rebuilt.differing.count)."))
        if !rebuilt.differing.isEmpty { throw ExitCode(1) }
    }
}

extension Ledger.Fault {
    fileprivate var sentence: String { document.map { "document \(number) (\($0)): \(error)" } ?? error }
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

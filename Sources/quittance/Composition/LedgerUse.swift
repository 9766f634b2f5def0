// SPDX-License-Identifier: Apache-2.0

import Logging
import PurchaseLedger
import PurchaseServer

/// How a command works on a ledger.
enum LedgerUse {
    /// As a server: makes the ledger if there is none, brings it up to date, and erases again what its journal names.
    case serving
    /// Beside a server that may run.
    case asking
}

extension Composition {
    /// Builds all that a configuration describes, from top to bottom, lets `body` use it, and closes what it opened.
    ///
    /// - Parameters:
    ///   - share: How much of Apple's rate limits is used, in percent.
    ///   - trustsOtherRoots: Whether documents of roots that are not configured now count all the same.
    ///   - warn: Called with what the operator should look at in the keys' files; by default it is standard error.
    ///   - body: Gets the service, and the composition with the time that it takes.
    /// - Throws: Wrong usage; exit status 1 if the ledger cannot be used, with the reason on standard error; errors of
    ///   `body`.
    func run<Output>(
        _ use: LedgerUse, share: Int = 100, trustsOtherRoots: Bool = false, _ logger: Logger,
        warn: (String) -> Void = { Terminal.printError("quittance: \($0)") },
        _ body: (LedgerService, Composition) async throws -> Output
    ) async throws -> Output {
        let verifier = try verifier()
        let signing = try signing(warn: warn)
        var composition = self
        try await composition.takeSimulatorTime(logger)
        let isServer = use == .serving
        let storage = try await isServer ? storageForServing(waiting: logger) : openStorage()
        return try await Self.closing(storage) { [composition] in
            if isServer { await report(storage, to: logger) }
            let judge = isServer ? composition.clockJudge() : nil
            var service = composition.service(storage, verifier, judge: judge)
            let erasures = try isServer ? erasureJournal() : nil
            if let journal = erasures?.journal { service.keepErasures(in: journal) }
            service.signing = signing
            let questions = composition.questions(service, share: share)
            service.questions = questions
            service.jobs = questions.jobs(clock: clock, logger: logger)
            try await composition.requireRoots(of: service, trustsOthers: trustsOtherRoots, logger)
            if isServer { try await service.eraseAgain(erasures, logger) }
            return try await body(service, composition)
        }
    }

    /// Closing merges SQLite's write-ahead log into the file, so the ledger is closed after an error too.
    private static func closing<Output>(
        _ storage: any LedgerStorage, _ body: () async throws -> Output
    ) async throws -> Output {
        let output: Output
        do {
            output = try await body()
        } catch {
            // The first error says more.
            try? storage.close()
            throw error
        }
        try storage.close()
        return output
    }
}

extension LedgerService {
    /// Erases customers whose erasure is in the journal and not in the ledger, as after a backup was restored by hand.
    fileprivate func eraseAgain(_ erasures: ErasureJournalFile?, _ logger: Logger) async throws {
        guard let erasures else {
            return logger.warning(
                """
                Without erasureJournal, a restored dump brings deleted customers back: set it to the path of a file of \
                this server
                """)
        }
        let count = try await ledger.replay(erasures)
        guard count > 0 else { return }
        logger.warning(
            "The ledger is older than the journal of erasures: customers were erased again",
            metadata: ["customers": "\(count)", "journal": .string(erasures.path)])
    }
}

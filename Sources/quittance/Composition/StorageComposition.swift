// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
#if PostgreSQL
import LedgerPostgres
#endif
import LedgerSQLite
import Logging
import PurchaseLedger
import PurchaseServer

// The ledger of a configuration: its location, and how it is opened and closed.

extension Composition {
    /// Opens the ledger, lets `body` use it, and closes it.
    ///
    /// - Parameter logger: Logs that a server waits for an unreachable database. If `nil`, the command fails at once.
    /// - Throws: Exit status 1 if the ledger cannot be opened; `ValidationError` if the ledger does not exist; errors
    ///   of `body`.
    func withStorage<Output>(
        _ use: LedgerUse, waiting logger: Logger? = nil, _ body: (any LedgerStorage) async throws -> Output
    ) async throws -> Output {
        let storage = try await open(use, waiting: logger)
        return try await Self.closing(storage) { try await body(storage) }
    }

    /// Lets `body` use the ledger, and ends the command with status 1 if the ledger cannot be read or written.
    func onLedger(_ use: LedgerUse, _ body: (any LedgerStorage) async throws -> Void) async throws {
        try await endingOnDamage { try await withStorage(use, body) }
    }

    /// Lets `body` use a storage, and closes the storage, even after an error. Closing merges SQLite's write-ahead log
    /// into the file.
    static func closing<Output>(
        _ storage: any LedgerStorage, _ body: () async throws -> Output
    ) async throws -> Output {
        let output: Output
        do {
            output = try await body()
        } catch {
            // The first error gives the real reason.
            try? storage.close()
            throw error
        }
        try storage.close()
        return output
    }

    private func open(_ use: LedgerUse, waiting logger: Logger?) async throws -> any LedgerStorage {
        let storage: any LedgerStorage
        do {
            storage = try await opened(use, waiting: logger)
        } catch let error where !(error is ValidationError) {
            let place = try isInFile ? "at \(ledgerFile())" : "in the database"
            throw Terminal.failure("Cannot open the ledger \(place): \(error)")
        }
        if !use.makesLedger, isInFile, use != .inspecting {
            try warnOfExposure()
            // A check lists the concern among its faults, and a server logs it.
            if use != .checking, let concern = storage.condition.concern { Terminal.report(concern) }
        }
        return storage
    }

    /// Opens the ledger, and reports nothing.
    ///
    /// - Throws: `LedgerStorageError`; `ValidationError` if the ledger does not exist.
    func opened(_ use: LedgerUse, waiting logger: Logger? = nil) async throws -> any LedgerStorage {
        if case .postgresql(let uri) = configuration.database { return try await database(uri, use, waiting: logger) }
        let path = try use.makesLedger ? ledgerFile() : existingLedger()
        switch use {
        case .serving: return try SQLiteLedgerStorage(path: path, isServed: true)
        case .working: return try SQLiteLedgerStorage(path: path, createIfMissing: false, upgrades: false)
        case .reading, .checking, .inspecting: return try SQLiteLedgerStorage(reading: path)
        case .copyingFrom:
            return try SQLiteLedgerStorage(path: path, createIfMissing: false, upgrades: false, isServed: true)
        case .copyingInto: return try SQLiteLedgerStorage(path: path, isServed: true, continuesCopy: true)
        }
    }

    /// Warns if other users of the machine may read the ledger's file. Call this method only after the file was
    /// recognised as a ledger.
    func warnOfExposure() throws {
        guard let warning = SQLiteLedgerStorage.exposure(of: try ledgerFile()) else { return }
        Terminal.report(warning)
    }

    /// The location of the ledger, for people: without the user and the password of an address.
    var ledgerName: String {
        get throws {
            #if PostgreSQL
            if case .postgresql(let uri) = configuration.database { return PostgresSettings(uri).displayName }
            #endif
            return "sqlite:" + URL(fileURLWithPath: try ledgerFile()).standardizedFileURL.path
        }
    }

    /// Throws `ValidationError` if no ledger is configured, or the ledger's file does not exist. Whether a database
    /// exists is not checked.
    func requireLedger() throws {
        if case .postgresql = configuration.database { return }
        _ = try existingLedger()
    }

    /// The path of the ledger's existing file.
    ///
    /// - Throws: `ValidationError` if the file is missing, or the ledger is not in a file.
    func existingLedger() throws -> String {
        let path = try ledgerFile()
        guard FileManager.default.fileExists(atPath: path) else {
            throw ValidationError("There is no ledger at \(path). quittance serve creates the ledger.")
        }
        return path
    }

    /// The path of the ledger's file, which may be missing.
    ///
    /// - Throws: `ValidationError` if the ledger is in a database, or no ledger is configured.
    func ledgerFile() throws -> String {
        switch configuration.database {
        case .sqlite(let path): return path
        case .postgresql:
            throw ValidationError(
                """
                A database is backed up with PostgreSQL's own pg_dump or pg_basebackup, and restored with its own \
                tools, see docs/postgresql-operations.md. After a restore run quittance restore --new-epoch. \
                quittance copy --to sqlite:PATH makes a file of it.
                """)
        case nil:
            throw ValidationError(
                "Which ledger? Pass --config FILE of a configuration with database, or --database sqlite:PATH.")
        }
    }

    /// The end of the name of the journal of erasures, appended to the name of the ledger's file.
    static let erasuresEnding = "-erasures"

    /// The path of the journal of erasures: from the setting `erasureJournal`, or beside the ledger's file. `nil` if
    /// there is neither.
    var erasureJournalPath: String? {
        if let path = configuration.erasureJournal { return URL(fileURLWithPath: path).resolvingSymlinksInPath().path }
        guard case .sqlite(let path) = configuration.database else { return nil }
        return URL(fileURLWithPath: path).resolvingSymlinksInPath().path + Self.erasuresEnding
    }

    /// Removes what a killed restore left beside the ledger and the journal of erasures.
    func removeAbandoned() throws {
        let ledger = try isInFile ? URL(fileURLWithPath: ledgerFile()).resolvingSymlinksInPath().path : nil
        for path in [ledger, erasureJournalPath].compactMap(\.self) { PartialFile.removeAbandoned(beside: path) }
    }

    /// Whether the ledger is in a file, which has one server.
    var isInFile: Bool { if case .sqlite = configuration.database { true } else { false } }

    /// The journal of erasures, created if missing; `nil` if ``erasureJournalPath`` is `nil`.
    ///
    /// - Throws: Exit status 1 if the journal cannot be opened.
    func erasureJournal() throws -> ErasureJournalFile? {
        var random = random
        do {
            return try erasureJournalPath.map { try ErasureJournalFile($0, random: &random) }
        } catch let error as LedgerStorageError {
            throw Terminal.failure("\(error)")
        }
    }
}

// MARK: - Warnings for the operator

extension Composition {
    /// Logs facts and warnings about a ledger for the operator.
    func report(_ storage: any LedgerStorage, to logger: Logger) async {
        do {
            log(try await storage.report(), to: logger)
        } catch {
            // The database is unreachable, and the next request reports the failure.
        }
        do {
            let ahead = try await storage.clockDifference(now: SystemClock.now) ?? .zero
            let distance = max(ahead, .zero - ahead)
            guard distance > Self.clockTolerance else { return }
            let side = ahead > .zero ? "ahead of" : "behind"
            logger.warning(
                """
                This machine's clock is \(distance) \(side) the database's: set both by NTP, also on other servers
                """)
        } catch {
            // The database is unreachable, and the next request reports the failure.
        }
    }

    private func log(_ report: StorageReport, to logger: Logger) {
        if !report.facts.isEmpty {
            let facts = report.facts.map { ($0.name, Logger.MetadataValue.string($0.value)) }
            logger.info("The ledger is in a database", metadata: Logger.Metadata(facts) { first, _ in first })
        }
        if let failure = report.lockFailure {
            logger.warning(
                "The ledger cannot be locked: make sure that no other server uses it",
                metadata: ["reason": "\(failure)"])
        }
        for note in report.notes { logger.info("\(note)") }
        for warning in report.warnings { logger.warning("\(warning)") }
    }

    /// The maximum tolerated difference between this machine's clock and the database's. Documents are about a second
    /// old when they arrive, so with such a difference they hardly seem to come from the future.
    static let clockTolerance = Duration.seconds(1)
}

// MARK: - A database

extension Composition {
    #if PostgreSQL
    private func database(
        _ uri: String, _ use: LedgerUse, waiting logger: Logger?
    ) async throws -> any LedgerStorage {
        var settings = PostgresSettings(uri)
        if [.copyingFrom, .copyingInto].contains(use) { settings.requestLimit = Self.copyLimit }
        settings.numbersEvents = use != .checking
        let found = settings
        let open = {
            try await PostgresLedgerStorage(
                found, upgrades: use.makesLedger, continuesCopy: use == .copyingInto, clock: clock, random: random)
        }
        guard let logger else { return try await open() }
        let watch = openingWatch(found) {
            logger.warning("The server waits for the database", metadata: ["waitsFor": .string($0)])
        }
        let wait = DatabaseWait(
            clock: clock,
            isAway: {
                defer { watch.last.sentence = nil }
                return if watch.last.sentence == nil { await found.isAway(clock: clock) } else { true }
            }
        ) { reason in
            logger.warning(
                "The database is away or locked: the server waits for it, for a minute at most",
                metadata: ["reason": .string(reason)])
        }
        return try await watch.watch { try await wait.open(open) }
    }

    func openingWatch(
        _ settings: PostgresSettings, _ say: @escaping @Sendable (String) -> Void
    ) -> OpeningWatch<ContinuousClock> {
        OpeningWatch(clock: clock, blockers: { [clock] in await settings.blockers(clock: clock) }, say: say)
    }

    func openingDatabase<Value>(_ body: () async throws -> Value) async throws -> Value {
        do {
            return try await body()
        } catch {
            throw Terminal.failure("Cannot open the ledger in the database: \(error)")
        }
    }

    /// The timeout of a request during a copy. No client waits for a copy, and a request may read a page of 500
    /// records, count all documents or gather statistics. Only a database that hangs takes longer.
    private static let copyLimit = Duration.seconds(300)
    #else
    private func database(_: String, _: LedgerUse, waiting _: Logger?) async throws -> any LedgerStorage {
        throw Self.withoutPostgres
    }

    static let withoutPostgres = ValidationError(
        "This program was built without PostgreSQL: build it with the package trait PostgreSQL.")
    #endif
}
